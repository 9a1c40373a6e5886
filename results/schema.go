package results

// SchemaVersion is the run format's version that this program writes, and the newest that it reads. It is the
// file's user_version.
//
// A run of version 1 is readable and upgraded when opened for appending.
const SchemaVersion = 2

// applicationID marks an SQLite file as a run: "GmAu", big endian.
const applicationID = 0x476d4175

// ddl creates an empty run. Text is preferred to codes where it is cheap, so that runs are readable with any
// SQLite shell.
//
// A case is a series and an m. Its identity columns are in unique constraints, so a case can't be stored
// twice. dims names the other dimensions and operands the operand types (see identity.go), both as canonical
// JSON, so equal values are equal text. parts is "192+1988" for a split, "copied" for a padded product with
// copied rows, and empty for a single launch. Unknown launch fields are null.
//
// A sample's primary key is seq, the execution order of blocks. The run's only writer ensures one sample per
// case, phase and round ([recorded]). An index would be a third of the file and take as long to fill as the
// table.
const ddl = ddlOfBoth + ddlOfSamples + ddlOfChoices

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

// ddlOfChoices are the tables of kernel choices. A run of version 2 without them has no choices; they are
// added when needed.
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

// ddlOfHostTimes is the table of the samples whose launches were started by the host one by one. A run without such
// samples does not have it.
const ddlOfHostTimes = `
CREATE TABLE IF NOT EXISTS host_times (
	seq     INTEGER PRIMARY KEY,
	host_us REAL NOT NULL
);
`

// ddlOfOtherLaunches is the table of launches that changed during the run. A run without them does not have it.
// Unknown numbers are 0.
const ddlOfOtherLaunches = `
CREATE TABLE IF NOT EXISTS other_launches (
	case_id INTEGER NOT NULL REFERENCES cases(id),
	label   TEXT NOT NULL,
	tile_m  INTEGER NOT NULL,
	tile_n  INTEGER NOT NULL,
	tile_k  INTEGER NOT NULL,
	split   INTEGER NOT NULL,
	phase   TEXT NOT NULL,
	round   INTEGER NOT NULL,
	PRIMARY KEY (case_id, label, tile_m, tile_n, tile_k, split)
) WITHOUT ROWID;
`

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

// ddlOfVersion1 are version 1's forms of those tables.
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
