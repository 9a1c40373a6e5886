module lookup

go 1.26
