package results

// SchemaVersion is the version of the run format that this program writes, and
// the newest that it reads. It is stored as the file's user_version.
//
// A run of version 1 is read as it stands, and becomes one of version 2 when it is
// opened for appending.
const SchemaVersion = 2

// applicationID marks an SQLite file as a run of ours: "GmAu", big endian.
const applicationID = 0x476d4175

// ddl lays out an empty run. Text is preferred to codes where it costs little,
// so that a run can be read with any SQLite shell.
//
// A case is a series and a value of the swept dimension, which is m; the columns of
// its identity are in the unique constraints, so that one case can't be stored
// twice. dims names the other dimensions and operands the types of the operands
// (see identity.go); both are JSON in one canonical form, so that equal ones are
// equal as text. parts is "192+1988" for a split, "copied" for a padded product whose rows are
// copied first, and empty for a single launch.
// What is not known of a launch is null.
//
// A sample's seq is its primary key: blocks run one after the other, and the order
// is the story of the run. That a case has one sample in a phase and round is kept by
// the one writer that a run has at a time ([recorded]), and not by an index, which
// would be a third of the file and take as long to fill as the table.
const ddl = ddlOfBoth + ddlOfSamples + ddlOfChoices

// ddlOfBoth are the tables that are the same in both versions.
const ddlOfBoth = `
CREATE TABLE meta (
	key   TEXT PRIMARY KEY,
	value TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE state (
	key   TEXT PRIMARY KEY,
	value TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE failures (
	case_id INTEGER NOT NULL REFERENCES cases(id),
	phase   TEXT NOT NULL,
	round   INTEGER NOT NULL,
	reason  TEXT NOT NULL,
	PRIMARY KEY (case_id, phase, round)
) WITHOUT ROWID;
`

// ddlOfChoices are the tables of what would run, told without timing. A run of version 2 that
// lacks them has no choices; they are added when it gets some.
const ddlOfChoices = `
CREATE TABLE IF NOT EXISTS launch_kinds (
	id          INTEGER PRIMARY KEY,
	label       TEXT NOT NULL,
	tile_m      INTEGER NOT NULL,
	tile_n      INTEGER NOT NULL,
	tile_k      INTEGER NOT NULL,
	stages      INTEGER NOT NULL,
	split       INTEGER NOT NULL,
	cluster_x   INTEGER NOT NULL,
	cluster_y   INTEGER NOT NULL,
	cluster_z   INTEGER NOT NULL,
	orientation TEXT NOT NULL,
	slots       REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS choices (
	series INTEGER NOT NULL REFERENCES series(id),
	from_m INTEGER NOT NULL,
	to_m   INTEGER NOT NULL,
	kind   INTEGER NOT NULL REFERENCES launch_kinds(id),
	PRIMARY KEY (series, from_m)
) WITHOUT ROWID;
`

// ddlOfSamples are the tables in which version 2 differs from version 1.
const ddlOfSamples = `
CREATE TABLE origins (
	id     INTEGER PRIMARY KEY,
	run    TEXT NOT NULL,
	host   TEXT NOT NULL,
	device TEXT NOT NULL,
	card   TEXT,
	labels TEXT NOT NULL
);
CREATE TABLE series (
	id          INTEGER PRIMARY KEY,
	operation   TEXT NOT NULL,
	device      TEXT NOT NULL,
	kernel      TEXT NOT NULL,
	dims        TEXT NOT NULL,
	operands    TEXT NOT NULL,
	layout      TEXT NOT NULL,
	regime      TEXT NOT NULL,
	threads     INTEGER NOT NULL,
	pack_inside INTEGER NOT NULL,
	UNIQUE (operation, device, kernel, dims, operands, layout, regime, threads, pack_inside)
);
CREATE TABLE cases (
	id          INTEGER PRIMARY KEY,
	series      INTEGER NOT NULL REFERENCES series(id),
	m           INTEGER NOT NULL,
	parts       TEXT NOT NULL,
	pad_to      INTEGER NOT NULL,
	label       TEXT NOT NULL,
	tile_m      INTEGER,
	tile_n      INTEGER,
	tile_k      INTEGER,
	waves       REAL,
	split       INTEGER,
	orientation TEXT,
	UNIQUE (series, m, parts, pad_to)
);
CREATE TABLE samples (
	seq         INTEGER PRIMARY KEY,
	case_id     INTEGER NOT NULL REFERENCES cases(id),
	phase       TEXT NOT NULL,
	round       INTEGER NOT NULL,
	started_us  INTEGER NOT NULL,
	launches    INTEGER NOT NULL,
	us          REAL NOT NULL,
	clock_mhz   REAL NOT NULL,
	power_w     REAL NOT NULL,
	temp_c      REAL NOT NULL,
	throttle    TEXT NOT NULL,
	disturbance TEXT NOT NULL,
	allocation  INTEGER NOT NULL DEFAULT 0,
	energy_mj   REAL,
	utils       REAL NOT NULL DEFAULT 0,
	origin      INTEGER NOT NULL REFERENCES origins(id)
);
`

// ddlOfVersion1 are the tables of version 1 that version 2 has otherwise.
const ddlOfVersion1 = `
CREATE TABLE series (
	id          INTEGER PRIMARY KEY,
	device      TEXT NOT NULL,
	kernel      TEXT NOT NULL,
	dtype       TEXT NOT NULL,
	n           INTEGER NOT NULL,
	k           INTEGER NOT NULL,
	regime      TEXT NOT NULL,
	threads     INTEGER NOT NULL,
	pack_inside INTEGER NOT NULL,
	UNIQUE (device, kernel, dtype, n, k, regime, threads, pack_inside)
);
CREATE TABLE cases (
	id     INTEGER PRIMARY KEY,
	series INTEGER NOT NULL REFERENCES series(id),
	m      INTEGER NOT NULL,
	parts  TEXT NOT NULL,
	pad_to INTEGER NOT NULL,
	label  TEXT NOT NULL,
	UNIQUE (series, m, parts, pad_to)
);
CREATE TABLE samples (
	seq         INTEGER PRIMARY KEY,
	case_id     INTEGER NOT NULL REFERENCES cases(id),
	phase       TEXT NOT NULL,
	round       INTEGER NOT NULL,
	started_us  INTEGER NOT NULL,
	launches    INTEGER NOT NULL,
	us          REAL NOT NULL,
	clock_mhz   REAL NOT NULL,
	power_w     REAL NOT NULL,
	temp_c      REAL NOT NULL,
	throttle    TEXT NOT NULL,
	disturbance TEXT NOT NULL,
	UNIQUE (case_id, phase, round)
);
`
