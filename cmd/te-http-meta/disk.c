/* disk.c - the file of --data: SQLite, written by a thread of its own in groups. */
#include "disk.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <time.h>

enum {
	APPLICATION_ID = 0x54654d44, /* "TeMD" */
	SCHEMA_VERSION = 1,
	LOG_BYTES = 8 << 20,
};

enum { SQL_BEGIN, SQL_COMMIT, SQL_ROLLBACK, SQL_PUT, SQL_DELETE, SQL_EXPIRE, SQL_COUNT };

static const char *const sql_text[SQL_COUNT] = {
	[SQL_BEGIN] = "BEGIN IMMEDIATE",
	[SQL_COMMIT] = "COMMIT",
	[SQL_ROLLBACK] = "ROLLBACK",
	[SQL_PUT] =
		("INSERT INTO metadata (key, value, revision, expires_ms) VALUES (?1, ?2, ?3, "
		 "?4) ON CONFLICT (key) DO UPDATE SET value = ?2, revision = ?3, expires_ms = ?4"),
	[SQL_DELETE] = "DELETE FROM metadata WHERE key = ?1",
	[SQL_EXPIRE] = "DELETE FROM metadata WHERE key = ?1 AND revision = ?2",
};

struct disk {
	char *path;
	sqlite3 *db; /* opener's thread until disk_start(), then the writer's */
	sqlite3_stmt *sql[SQL_COUNT];
	int64_t clock; /* wall clock minus the store's moments; set with each batch */

	pthread_t thread;
	bool running;
	void (*done)(void *arg);
	void *arg;
	bool busy;	  /* server's thread: a batch was given and not taken back */
	uint64_t commits; /* server's thread */

	pthread_mutex_t lock; /* protects: */
	pthread_cond_t cond;
	bool stop;
	struct store_op *todo, *finished;
	struct te_err result; /* of finished */
};

static int64_t wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int last_errno(struct disk *d, int which)
{
	sqlite3_file *file = NULL;
	int sys = 0;

	sqlite3_file_control(d->db, NULL, which, &file);
	if (file && file->pMethods)
		file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &sys);
	return sys;
}

/* What SQLite says, with the system's reason where there is one. */
static int fail_sql(struct disk *d, int rc, const char *what, struct te_err *err)
{
	int sys = sqlite3_system_errno(d->db), code = -EIO;

	/* A failed write leaves its reason with the file alone. */
	if (!sys && d->db)
		sys = last_errno(d, SQLITE_FCNTL_JOURNAL_POINTER);
	if (!sys && d->db)
		sys = last_errno(d, SQLITE_FCNTL_FILE_POINTER);
	if (rc == SQLITE_FULL || (rc & 0xff) == SQLITE_IOERR) {
		if (rc == SQLITE_FULL || sys == ENOSPC || sys == EDQUOT || sys == EFBIG)
			code = -ENOSPC;
		return te_fail(err, code, "cannot %s '%s': %s%s%s", what, d->path,
			       sqlite3_errstr(rc), sys ? ": " : "", sys ? strerror(sys) : "");
	}
	if (rc == SQLITE_NOTADB || rc == SQLITE_CORRUPT)
		return te_fail(err, -EINVAL,
			       "cannot %s '%s': it is damaged or no file of te-http-meta (%s)",
			       what, d->path, sqlite3_errstr(rc));
	if (rc == SQLITE_BUSY || rc == SQLITE_LOCKED)
		return te_fail(err, -EBUSY, "cannot %s '%s': another process uses it", what,
			       d->path);
	return te_fail(err, code, "cannot %s '%s': %s%s%s", what, d->path, sqlite3_errmsg(d->db),
		       rc == SQLITE_CANTOPEN && sys ? ": " : "",
		       rc == SQLITE_CANTOPEN && sys ? strerror(sys) : "");
}

/* ---- opening ------------------------------------------------------------------------------ */

static int run_sql(struct disk *d, const char *sql, struct te_err *err)
{
	int rc = sqlite3_exec(d->db, sql, NULL, NULL, NULL);

	return rc ? fail_sql(d, rc, "open", err) : 0;
}

/* First column of the first row, as a number, and as text into buf. */
static int query(struct disk *d, const char *sql, int64_t *number, char *buf, size_t size,
		 struct te_err *err)
{
	sqlite3_stmt *st;
	const unsigned char *text;
	int rc = sqlite3_prepare_v2(d->db, sql, -1, &st, NULL);

	if (!rc)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW) {
		*number = sqlite3_column_int64(st, 0);
		text = sqlite3_column_text(st, 0);
		if (buf)
			snprintf(buf, size, "%s", text ? (const char *)text : "");
		rc = 0;
	}
	if (rc)
		fail_sql(d, rc, "open", err);
	sqlite3_finalize(st);
	return rc ? -EINVAL : 0;
}

static int check_file(struct disk *d, bool *empty, struct te_err *err)
{
	int64_t id = 0, version = 0, tables = 0, n;
	char verdict[200], *line;

	if (query(d, "PRAGMA application_id", &id, NULL, 0, err) ||
	    query(d, "PRAGMA user_version", &version, NULL, 0, err) ||
	    query(d, "SELECT count(*) FROM sqlite_schema", &tables, NULL, 0, err))
		return -EINVAL;
	*empty = !tables && !id && !version;
	if (*empty)
		return 0;
	if (id != APPLICATION_ID)
		return te_fail(err, -EINVAL,
			       "cannot open '%s': it is a database of another program", d->path);
	if (version != SCHEMA_VERSION)
		return te_fail(err, -EINVAL,
			       "cannot open '%s': it is of version %lld, this program knows %d",
			       d->path, (long long)version, SCHEMA_VERSION);
	if (query(d, "PRAGMA quick_check(1)", &n, verdict, sizeof(verdict), err))
		return -EINVAL;
	for (line = verdict; (line = strchr(line, '\n'));)
		*line = ' ';
	if (strcmp(verdict, "ok") != 0)
		return te_fail(err, -EINVAL, "cannot open '%s': it is damaged: %s", d->path,
			       verdict);
	return 0;
}

/*
 * Give the log the size that it may reach before it is written over from its beginning. To sync a
 * file that grows, or that has blocks nobody wrote yet, costs the file system a transaction of its
 * own each time. Zeros are no frames: recovery stops at them. Without space for it, all works as
 * well.
 */
static void lay_out_log(struct disk *d)
{
	static const char zeros[1 << 16];
	sqlite3_file *log = NULL;
	sqlite3_int64 at = 0;

	sqlite3_file_control(d->db, NULL, SQLITE_FCNTL_JOURNAL_POINTER, &log);
	if (!log || !log->pMethods || log->pMethods->xFileSize(log, &at))
		return;
	for (; at < LOG_BYTES; at += (sqlite3_int64)sizeof(zeros)) {
		if (log->pMethods->xWrite(log, zeros, sizeof(zeros), at))
			return;
	}
}

static int prepare(struct disk *d, struct te_err *err)
{
	char schema[300];
	bool empty;
	int i, rc;

	/* Exclusive: one server a file, and no shared memory beside it. */
	rc = run_sql(d, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA trusted_schema = OFF", err);
	if (!rc)
		rc = check_file(d, &empty, err);
	if (!rc)
		rc = run_sql(d,
			     "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
			     "PRAGMA wal_autocheckpoint = 2000", /* LOG_BYTES, in pages */
			     err);
	if (!rc && empty) {
		snprintf(
			schema, sizeof(schema),
			"BEGIN; PRAGMA application_id = %d; PRAGMA user_version = %d;"
			"CREATE TABLE metadata (key TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL,"
			" revision INTEGER NOT NULL, expires_ms INTEGER NOT NULL); COMMIT",
			APPLICATION_ID, SCHEMA_VERSION);
		rc = run_sql(d, schema, err);
	}
	/* Takes the lock for good. */
	if (!rc)
		rc = run_sql(d, "BEGIN IMMEDIATE; COMMIT", err);
	if (!rc)
		lay_out_log(d);
	for (i = 0; !rc && i < SQL_COUNT; i++) {
		rc = sqlite3_prepare_v3(d->db, sql_text[i], -1, SQLITE_PREPARE_PERSISTENT,
					&d->sql[i], NULL);
		if (rc)
			rc = fail_sql(d, rc, "open", err);
	}
	return rc;
}

/* To SQLite a name may be memory (":memory:", "", "file:x?mode=memory"): not with a slash before
 * it. */
static int open_file(const char *path, sqlite3 **db)
{
	char *name = NULL;
	int rc = asprintf(&name, "%s%s", *path == '/' ? "" : "./", path);

	if (rc < 0)
		return SQLITE_NOMEM;
	rc = sqlite3_open_v2(
		name, db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
	free(name);
	return rc;
}

int disk_open(const char *path, struct disk **out, struct te_err *err)
{
	struct disk *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return te_fail(err, -ENOMEM, "out of memory");
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->cond, NULL);
	d->path = strdup(path);
	rc = d->path ? open_file(path, &d->db) : SQLITE_NOMEM;
	rc = rc ? fail_sql(d, rc, "open", err) : prepare(d, err);
	if (rc)
		disk_close(d);
	else
		*out = d;
	return rc;
}

void disk_close(struct disk *d)
{
	int i;

	for (i = 0; i < SQL_COUNT; i++)
		sqlite3_finalize(d->sql[i]);
	sqlite3_close(d->db);
	pthread_cond_destroy(&d->cond);
	pthread_mutex_destroy(&d->lock);
	free(d->path);
	free(d);
}

static int load_row(struct store *s, sqlite3_stmt *st, int64_t wall, uint64_t now)
{
	const char *key = (const char *)sqlite3_column_text(st, 0);
	const void *data = sqlite3_column_blob(st, 1);
	size_t len = (size_t)sqlite3_column_bytes(st, 1);
	uint64_t rev = (uint64_t)sqlite3_column_int64(st, 2);
	int64_t expires = sqlite3_column_int64(st, 3);
	struct value *value;

	if (rev > s->rev)
		s->rev = s->visible = s->events.base = rev;
	if (expires && expires <= wall)
		return 0;
	if (!key)
		return SQLITE_NOMEM;
	value = value_new(len ? data : "", len);
	if (!value)
		return SQLITE_NOMEM;
	expires = expires ? (int64_t)now + expires - wall : 0;
	return store_load(s, key, value, rev, (uint64_t)expires) ? 0 : SQLITE_NOMEM;
}

int disk_load(struct disk *d, struct store *s, uint64_t now, struct te_err *err)
{
	int64_t wall = wall_ms();
	sqlite3_stmt *st;
	char purge[80];
	int rc = sqlite3_prepare_v2(d->db, "SELECT key, value, revision, expires_ms FROM metadata",
				    -1, &st, NULL);

	while (!rc) {
		rc = sqlite3_step(st);
		if (rc == SQLITE_DONE)
			break;
		rc = rc == SQLITE_ROW ? load_row(s, st, wall, now) : rc;
	}
	sqlite3_finalize(st);
	if (rc != SQLITE_DONE)
		return fail_sql(d, rc, "read", err);
	/* Only tidiness: on a full disk it may fail, and the next start leaves them out again. */
	snprintf(purge, sizeof(purge), "DELETE FROM metadata WHERE expires_ms BETWEEN 1 AND %lld",
		 (long long)wall);
	sqlite3_exec(d->db, purge, NULL, NULL, NULL);
	return 0;
}

/* ---- the writer --------------------------------------------------------------------------- */

static int step(sqlite3_stmt *st)
{
	int rc = sqlite3_step(st);

	sqlite3_reset(st);
	return rc == SQLITE_DONE ? 0 : rc;
}

static int write_op(struct disk *d, const struct store_op *op)
{
	const struct disk_op *dop = (const struct disk_op *)op;
	sqlite3_stmt *st;
	int rc;

	if (dop->expired) {
		st = d->sql[SQL_EXPIRE];
		sqlite3_bind_int64(st, 2, (int64_t)op->rev);
	} else if (op->result != STORE_STAGED) {
		return 0;
	} else if (op->type == STORE_DELETE) {
		st = d->sql[SQL_DELETE];
	} else {
		st = d->sql[SQL_PUT];
		sqlite3_bind_blob64(st, 2, op->value->data, op->value->len, SQLITE_STATIC);
		sqlite3_bind_int64(st, 3, (int64_t)op->rev);
		sqlite3_bind_int64(st, 4, op->expires ? (int64_t)op->expires + d->clock : 0);
	}
	sqlite3_bind_text(st, 1, op->key, -1, SQLITE_STATIC);
	rc = step(st);
	sqlite3_clear_bindings(st);
	return rc;
}

static void write_batch(struct disk *d, const struct store_op *batch, struct te_err *err)
{
	const struct store_op *op;
	int rc = step(d->sql[SQL_BEGIN]);

	*err = (struct te_err){ 0 };
	for (op = batch; op && !rc; op = op->next)
		rc = write_op(d, op);
	if (!rc)
		rc = step(d->sql[SQL_COMMIT]);
	if (!rc)
		return;
	fail_sql(d, rc, "write", err);
	/* Some errors roll back by themselves. */
	if (!sqlite3_get_autocommit(d->db))
		step(d->sql[SQL_ROLLBACK]);
}

static void *writer(void *arg)
{
	struct disk *d = arg;
	struct store_op *batch;
	struct te_err err;

	pthread_mutex_lock(&d->lock);
	while (d->todo || !d->stop) {
		if (!d->todo) {
			pthread_cond_wait(&d->cond, &d->lock);
			continue;
		}
		batch = d->todo;
		pthread_mutex_unlock(&d->lock);
		write_batch(d, batch, &err);
		pthread_mutex_lock(&d->lock);
		d->todo = NULL;
		d->finished = batch;
		d->result = err;
		pthread_mutex_unlock(&d->lock);
		d->done(d->arg);
		pthread_mutex_lock(&d->lock);
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

int disk_start(struct disk *d, void (*done)(void *arg), void *arg, struct te_err *err)
{
	int rc;

	d->done = done;
	d->arg = arg;
	rc = pthread_create(&d->thread, NULL, writer, d);
	if (rc)
		return te_fail(err, -rc, "cannot start a thread: %s", strerror(rc));
	d->running = true;
	return 0;
}

void disk_stop(struct disk *d)
{
	if (!d->running)
		return;
	pthread_mutex_lock(&d->lock);
	d->stop = true;
	pthread_cond_signal(&d->cond);
	pthread_mutex_unlock(&d->lock);
	pthread_join(d->thread, NULL);
	d->running = false;
}

void disk_write(struct disk *d, struct store_op *batch, uint64_t now)
{
	d->busy = true;
	pthread_mutex_lock(&d->lock);
	d->clock = wall_ms() - (int64_t)now;
	d->todo = batch;
	pthread_cond_signal(&d->cond);
	pthread_mutex_unlock(&d->lock);
}

bool disk_is_busy(const struct disk *d)
{
	return d->busy;
}

struct store_op *disk_take(struct disk *d, struct te_err *err)
{
	struct store_op *batch;

	if (!d->busy)
		return NULL;
	pthread_mutex_lock(&d->lock);
	batch = d->finished;
	d->finished = NULL;
	*err = d->result;
	pthread_mutex_unlock(&d->lock);
	if (!batch)
		return NULL;
	d->busy = false;
	if (!err->code)
		d->commits++;
	return batch;
}

uint64_t disk_commits(const struct disk *d)
{
	return d->commits;
}
