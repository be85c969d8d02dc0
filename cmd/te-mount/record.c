/* record.c - what te-mount has connected and mounted on this host. */
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "out.h"

static const char dir[] = "/run/te", file[] = "/run/te/mounts.json", lock_file[] = "/run/te/lock";

static void read_boot_id(char *out, size_t size)
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	*out = 0;
	if (!f)
		return;
	if (!fgets(out, (int)size, f))
		*out = 0;
	out[strcspn(out, "\n")] = 0;
	fclose(f);
}

void record_read(struct record *r)
{
	char boot[64];

	read_boot_id(boot, sizeof(boot));
	*r = (struct record){ .lock = -1, .doc = json_load_file(file, 0, NULL) };
	r->mounts = json_object_get(r->doc, "mounts");
	if (json_is_array(r->mounts) && strcmp(record_text(r->doc, "boot_id"), boot) == 0)
		return;
	json_decref(r->doc);
	r->doc = json_pack("{s:i, s:s, s:[]}", "te_mount", 1, "boot_id", boot, "mounts");
	r->mounts = json_object_get(r->doc, "mounts");
}

int record_open(struct record *r, const struct limit *l, struct te_err *err)
{
	int fd, rc = 0;

	if (mkdir(dir, 0755) != 0 && errno != EEXIST)
		return te_fail(err, -errno, "cannot make '%s': %s", dir, strerror(errno));
	fd = open(lock_file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return te_fail(err, -errno, "cannot open '%s': %s", lock_file, strerror(errno));
	while (flock(fd, LOCK_EX | LOCK_NB) != 0 && rc == 0)
		rc = limit_pause(l, 50);
	if (rc) {
		close(fd);
		return te_fail(err, rc,
			       rc == -EINTR ? "interrupted"
					    : "another te-mount is at work (it holds '%s')",
			       lock_file);
	}
	record_read(r);
	r->lock = fd;
	return 0;
}

void record_close(struct record *r)
{
	json_decref(r->doc);
	if (r->lock >= 0)
		close(r->lock);
	*r = (struct record){ .lock = -1 };
}

int record_save(struct record *r, struct te_err *err)
{
	if (json_array_size(r->mounts))
		return out_file(file, r->doc, err);
	if (unlink(file) == 0 || errno == ENOENT)
		return 0;
	return te_fail(err, -errno, "cannot delete '%s': %s", file, strerror(errno));
}

/* ---- entries ------------------------------------------------------------------------------ */

const char *record_text(const json_t *entry, const char *member)
{
	const char *text = json_string_value(json_object_get(entry, member));

	return text ? text : "";
}

bool record_flag(const json_t *entry, const char *member)
{
	return json_is_true(json_object_get(entry, member));
}

json_t *record_find(const struct record *r, const char *mount_point)
{
	json_t *e;
	size_t i;

	json_array_foreach(r->mounts, i, e)
	{
		if (strcmp(record_text(e, "mount_point"), mount_point) == 0)
			return e;
	}
	return NULL;
}

json_t *record_owner(const struct record *r, const json_t *but, const char *controller)
{
	json_t *e;
	size_t i;

	json_array_foreach(r->mounts, i, e)
	{
		if (e != but && record_flag(e, "connected") &&
		    strcmp(record_text(e, "controller"), controller) == 0)
			return e;
	}
	return NULL;
}

static bool is_file(const json_t *f, const char *store, const char *segment, const char *host,
		    const char *file_path)
{
	return strcmp(record_text(f, "store"), store) == 0 &&
	       strcmp(record_text(f, "segment"), segment) == 0 &&
	       strcmp(record_text(f, "host"), host) == 0 &&
	       (!file_path || strcmp(record_text(f, "file_path"), file_path) == 0);
}

bool record_has_file(const json_t *entry, const char *store, const char *segment, const char *host,
		     const char *file_path)
{
	json_t *f;
	size_t i;

	json_array_foreach(json_object_get(entry, "files"), i, f)
	{
		if (is_file(f, store, segment, host, file_path))
			return true;
	}
	return false;
}

size_t record_drop_files(json_t *entry, const char *store, const char *segment, const char *host,
			 const char *file_path)
{
	json_t *files = json_object_get(entry, "files");

	for (size_t i = json_array_size(files); i-- > 0;) {
		if (is_file(json_array_get(files, i), store, segment, host, file_path))
			json_array_remove(files, i);
	}
	return json_array_size(files);
}

void record_add_file(json_t *entry, const char *store, const char *segment, const char *host,
		     const char *file_path, const char *local_path)
{
	record_drop_files(entry, store, segment, host, file_path);
	json_array_append_new(json_object_get(entry, "files"),
			      json_pack("{s:s, s:s, s:s, s:s, s:s}", "store", store, "segment",
					segment, "host", host, "file_path", file_path, "local_path",
					local_path));
}
