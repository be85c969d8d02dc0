/* fabric_disk.c - the block device of a namespace: which ones there are, and waiting for ours. */
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <libnvme.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric.h"

struct active { /* namespaces, as the controller itself says */
	int rc;
	unsigned n;
	unsigned nsid[FABRIC_NS_MAX];
};

static void active_run(const void *arg, void *result)
{
	struct active *a = result;
	struct nvme_ns_list *list = aligned_alloc(4096, sizeof(*list));
	char path[64];
	int fd, rc;

	snprintf(path, sizeof(path), "/dev/%s", (const char *)arg);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || !list) {
		a->rc = fd < 0 ? -errno : -ENOMEM;
		return;
	}
	rc = nvme_identify_active_ns_list(fd, 0, list);
	a->rc = rc < 0 ? -errno : rc > 0 ? -EIO : 0;
	while (!a->rc && a->n < FABRIC_NS_MAX && list->ns[a->n]) {
		a->nsid[a->n] = le32toh(list->ns[a->n]);
		a->n++;
	}
	/* The process ends here. */
}

/* Which namespace this call is about. 0 with *nsid; -EAGAIN: there is none yet. */
static int choose(const struct fabric_target *t, const struct fabric_ctrl *c, const struct limit *l,
		  unsigned *nsid, struct te_err *err)
{
	static const struct task_ops ops = { .run = active_run, .size = sizeof(struct active) };
	char list[300] = "";
	struct active a;
	size_t len = 0;
	int rc = task_run(&ops, c->name, l, &a, NULL);

	/* Nor is there an answer while the connection is made anew. */
	if (rc || a.rc)
		return -EAGAIN;
	for (unsigned i = 0; i < a.n; i++) {
		if (t->nsid && a.nsid[i] == t->nsid) {
			*nsid = t->nsid;
			return 0;
		}
		if (len < sizeof(list) - 16)
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%u",
						len ? ", " : "", a.nsid[i]);
	}
	if (a.n == 0)
		return te_fail(err, -EAGAIN, "it has no namespace");
	if (t->nsid)
		return te_fail(err, -EINVAL, "'%s' has no namespace %u; it has %s", t->nqn, t->nsid,
			       list);
	if (a.n > 1)
		return te_fail(err, -EINVAL,
			       "'%s' has several namespaces, %s: choose one with --nsid", t->nqn,
			       list);
	*nsid = a.nsid[0];
	return 0;
}

/* "nvme0n1" of an entry of the controller's folder, which is that or, where devices may have
 * several paths, "nvme0c1n1". */
static bool disk_of(const char *entry, char disk[FABRIC_NAME_MAX])
{
	unsigned subsystem, ctrl, head;
	int end = 0;

	if (sscanf(entry, "nvme%uc%un%u%n", &subsystem, &ctrl, &head, &end) != 3 || entry[end]) {
		end = 0;
		if (sscanf(entry, "nvme%un%u%n", &subsystem, &head, &end) != 2 || entry[end])
			return false;
	}
	snprintf(disk, FABRIC_NAME_MAX, "nvme%un%u", subsystem, head);
	return true;
}

static bool has_nsid(const char *ctrl, const char *entry, unsigned nsid)
{
	char path[400];
	unsigned have = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/nvme/%s/%s/nsid", ctrl, entry);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (fscanf(f, "%u", &have) != 1)
		have = 0;
	fclose(f);
	return have == nsid;
}

static bool find_disk(const char *ctrl, unsigned nsid, char disk[FABRIC_NAME_MAX])
{
	char path[300];
	struct dirent *e;
	struct stat st;
	bool found = false;
	DIR *d;

	snprintf(path, sizeof(path), "/sys/class/nvme/%s", ctrl);
	d = opendir(path);
	while (d && !found && (e = readdir(d)))
		found = disk_of(e->d_name, disk) && has_nsid(ctrl, e->d_name, nsid);
	if (d)
		closedir(d);
	if (!found)
		return false;
	snprintf(path, sizeof(path), "/dev/%s", disk);
	return stat(path, &st) == 0 && S_ISBLK(st.st_mode);
}

static int too_late(const struct fabric_target *t, const struct fabric_ctrl *c, const char *state,
		    const struct te_err *last, int rc, struct te_err *err)
{
	if (rc == -EINTR)
		return te_fail(err, rc, "interrupted");
	if (strcmp(state, "live") != 0)
		return te_fail(err, rc,
			       "the connection to '%s' (%s) is '%s': its target %s does "
			       "not answer",
			       t->nqn, c->name, state, t->traddr);
	return te_fail(err, rc, "no block device of '%s' (%s) has appeared in time%s%s", t->nqn,
		       c->name, *last->msg ? ": " : "", last->msg);
}

int fabric_disk(const struct fabric_target *t, const struct fabric_ctrl *c, const struct limit *l,
		char disk[FABRIC_NAME_MAX], struct te_err *err)
{
	struct te_err last = { 0 };
	struct fabric_ctrl now;
	unsigned nsid = 0;
	int rc;

	do {
		if (!fabric_ctrl(c->name, &now))
			return te_fail(err, -ENODEV, "the connection to '%s' (%s) is gone", t->nqn,
				       c->name);
		rc = -EAGAIN;
		if (!nsid && strcmp(now.state, "live") == 0)
			rc = choose(t, c, l, &nsid, &last);
		if (rc == -EINVAL)
			return te_fail(err, rc, "%s", last.msg);
		if (nsid && find_disk(c->name, nsid, disk))
			return 0;
		rc = limit_pause(l, 50);
	} while (rc == 0);
	return too_late(t, c, now.state, &last, rc, err);
}
