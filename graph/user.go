package graph

// User is somebody with a token, now or once.
type User struct{ sub, name string }

// IsNode is part of Node.
func (*User) IsNode() {}

// ID is the id of this API.
func (u *User) ID() string { return userID(u.sub) }

// Name may be empty.
func (u *User) Name() string { return u.name }
