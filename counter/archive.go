package counter

// Totals are counts as the archive knows them.
type Totals struct {
	Subject   Subject
	Like, Fav int64
	// Version is the change that left them.
	Version Version
}

// Reaction is one viewer's like or fav of one subject, as the archive knows it.
type Reaction struct {
	Subject Subject
	Metric  Metric
	Ordinal Ordinal
	Active  bool
	Version Version
}
