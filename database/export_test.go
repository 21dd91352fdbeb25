package database

// MigrateFrom lets tests bring migrations of their own.
var MigrateFrom = migrateFrom
