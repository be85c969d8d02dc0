/* fabric_sys.c - the connections that the kernel has, from sysfs; and who this host is. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libnvme.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric.h"
#include "te_log.h"

static const char class_dir[] = "/sys/class/nvme";

/* A file's first line, without its end; "" where there is none. */
static void read_attr(const char *dir, const char *name, char *out, size_t size)
{
	char path[512];
	FILE *f;

	*out = 0;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "re");
	if (!f)
		return;
	if (!fgets(out, (int)size, f))
		*out = 0;
	out[strcspn(out, "\n")] = 0;
	fclose(f);
}

/* "traddr=1.2.3.4,trsvcid=4420,src_addr=..." */
static void address_part(const char *address, const char *key, char *out, size_t size)
{
	size_t len = strlen(key);

	*out = 0;
	for (const char *p = address; p; p = strchr(p, ',')) {
		p += *p == ',';
		if (strncmp(p, key, len) != 0 || p[len] != '=')
			continue;
		p += len + 1;
		snprintf(out, size, "%.*s", (int)strcspn(p, ","), p);
		return;
	}
}

static void read_ctrl(const char *name, struct fabric_ctrl *out)
{
	char dir[300], address[600];

	*out = (struct fabric_ctrl){ 0 };
	snprintf(out->name, sizeof(out->name), "%s", name);
	snprintf(dir, sizeof(dir), "%s/%s", class_dir, name);
	read_attr(dir, "subsysnqn", out->nqn, sizeof(out->nqn));
	read_attr(dir, "transport", out->transport, sizeof(out->transport));
	read_attr(dir, "state", out->state, sizeof(out->state));
	read_attr(dir, "address", address, sizeof(address));
	address_part(address, "traddr", out->traddr, sizeof(out->traddr));
	address_part(address, "trsvcid", out->trsvcid, sizeof(out->trsvcid));
}

/* "nvme12", not "nvme12n1" nor "nvme-fabrics". */
static bool is_ctrl(const char *name)
{
	size_t digits;

	if (strncmp(name, "nvme", 4) != 0)
		return false;
	digits = strspn(name + 4, "0123456789");
	return digits && !name[4 + digits] && strlen(name) < FABRIC_NAME_MAX;
}

bool fabric_ctrl(const char *name, struct fabric_ctrl *out)
{
	char path[300];

	if (!is_ctrl(name))
		return false;
	snprintf(path, sizeof(path), "%s/%s", class_dir, name);
	if (access(path, F_OK) != 0)
		return false;
	read_ctrl(name, out);
	return *out->state != 0;
}

static bool reaches(const struct fabric_ctrl *c, const struct fabric_target *t)
{
	return strcmp(c->nqn, t->nqn) == 0 && strcmp(c->transport, t->transport) == 0 &&
	       strcmp(c->traddr, t->traddr) == 0 && strcmp(c->trsvcid, t->trsvcid) == 0 &&
	       strncmp(c->state, "deleting", 8) != 0 && strcmp(c->state, "dead") != 0;
}

bool fabric_find(const struct fabric_target *t, struct fabric_ctrl *out)
{
	DIR *d = opendir(class_dir);
	struct dirent *e;
	bool found = false;

	while (d && !found && (e = readdir(d)))
		found = fabric_ctrl(e->d_name, out) && reaches(out, t);
	if (d)
		closedir(d);
	return found;
}

size_t fabric_paths(const char *disk, struct fabric_ctrl *out, size_t max)
{
	char path[300], real[PATH_MAX];
	const char *owner;
	struct dirent *e;
	size_t n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/sys/class/block/%s/device", disk);
	if (!realpath(path, real))
		return 0;
	owner = strrchr(real, '/') + 1;
	/* A device of one path belongs to its controller, one that may have several to its
	 * subsystem. */
	if (max && fabric_ctrl(owner, out))
		return 1;
	if (strncmp(owner, "nvme-subsys", 11) != 0)
		return 0;
	d = opendir(real);
	while (d && n < max && (e = readdir(d)))
		n += fabric_ctrl(e->d_name, &out[n]);
	if (d)
		closedir(d);
	return n;
}

/* ---- who this host is --------------------------------------------------------------------- */

/* Others may be doing the same: whoever was first decides. */
static int keep_line(const char *path, const char *line, struct te_err *err)
{
	int fd, rc = 0;

	if (mkdir("/etc/nvme", 0755) != 0 && errno != EEXIST)
		return te_fail(err, -errno, "cannot make '/etc/nvme': %s", strerror(errno));
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return te_fail(err, -errno, "cannot make '%s': %s", path, strerror(errno));
	if (dprintf(fd, "%s\n", line) < 0)
		rc = te_fail(err, -errno, "cannot write to '%s': %s", path, strerror(errno));
	if (close(fd) != 0 && !rc)
		rc = te_fail(err, -errno, "cannot write to '%s': %s", path, strerror(errno));
	if (rc)
		unlink(path);
	return rc;
}

/* Takes text. */
static bool take(char *text, char *out, size_t size)
{
	bool ok = text && *text && strlen(text) < size;

	if (ok)
		snprintf(out, size, "%s", text);
	free(text);
	return ok;
}

/* The id of a host whose NQN has a UUID is that UUID: Linux wants one id for one NQN. */
static int make_id(struct fabric_host *h, struct te_err *err)
{
	const char *uuid = strstr(h->nqn, ":uuid:");
	char *random;
	bool ok;

	if (uuid && strlen(uuid + 6) == 36) {
		snprintf(h->id, sizeof(h->id), "%.36s", uuid + 6);
		return 0;
	}
	random = nvmf_hostnqn_generate();
	uuid = random ? strstr(random, ":uuid:") : NULL;
	ok = uuid && strlen(uuid + 6) == 36;
	if (ok)
		snprintf(h->id, sizeof(h->id), "%.36s", uuid + 6);
	free(random);
	return ok ? 0 : te_fail(err, -EIO, "cannot make up an id of this host; give --hostid");
}

static void keep(const char *path, const char *line)
{
	struct te_err err;

	if (keep_line(path, line, &err))
		te_warn("this host has no lasting NVMe-oF name: %s", err.msg);
}

int fabric_host(const char *nqn, const char *id, struct fabric_host *out, struct te_err *err)
{
	static const char nqn_file[] = "/etc/nvme/hostnqn", id_file[] = "/etc/nvme/hostid";

	if (nqn) {
		snprintf(out->nqn, sizeof(out->nqn), "%s", nqn);
	} else if (!take(nvmf_hostnqn_from_file(), out->nqn, sizeof(out->nqn))) {
		if (!take(nvmf_hostnqn_generate(), out->nqn, sizeof(out->nqn)))
			return te_fail(err, -EIO,
				       "cannot make up an NQN of this host; give --hostnqn");
		keep(nqn_file, out->nqn);
	}
	if (id) {
		snprintf(out->id, sizeof(out->id), "%s", id);
	} else if (nqn || !take(nvmf_hostid_from_file(), out->id, sizeof(out->id))) {
		if (make_id(out, err))
			return err ? err->code : -EIO;
		if (!nqn)
			keep(id_file, out->id);
	}
	return 0;
}
