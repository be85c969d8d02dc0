/* fabric.c - discover, connect and disconnect, over libnvme, in processes that may get stuck. */
#include "fabric.h"

#include <ctype.h>
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <libnvme.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How long a TCP connection may take that only asks whether somebody is there. */
static const int probe_s = 5;

/* ---- libnvme, in the child ---------------------------------------------------------------- */

struct session { /* with libnvme */
	nvme_root_t root;
	nvme_host_t host;
	FILE *log; /* what libnvme says */
	char *said;
	size_t said_len;
};

static void session_close(struct session *s)
{
	if (s->root)
		nvme_free_tree(s->root);
	if (s->log)
		fclose(s->log);
	free(s->said);
}

static bool session_open(struct session *s, const struct fabric_target *t)
{
	*s = (struct session){ 0 };
	s->log = open_memstream(&s->said, &s->said_len);
	s->root = s->log ? nvme_create_root(s->log, LOG_INFO) : NULL;
	s->host = s->root ? nvme_lookup_host(s->root, t->hostnqn, t->hostid) : NULL;
	return s->host != NULL;
}

/* The last line that libnvme has logged, or else its word for that errno. */
static void session_reason(struct session *s, int error, char *out, size_t size)
{
	char *end, *line;

	snprintf(out, size, "%s", error >= 1000 ? nvme_errno_to_string(error) : strerror(error));
	if (!s->log || fflush(s->log) != 0 || !s->said_len)
		return;
	end = s->said + s->said_len;
	while (end > s->said && isspace((unsigned char)end[-1]))
		*--end = 0;
	line = strrchr(s->said, '\n');
	line = line ? line + 1 : s->said;
	if (*line)
		snprintf(out, size, "%s%s", line,
			 strstr(line, "Input/output") ? " (dmesg says more)" : "");
}

static void config_of(const struct fabric_target *t, struct nvme_fabrics_config *cfg)
{
	nvmf_default_config(cfg);
	cfg->fast_io_fail_tmo = t->fast_io_fail_tmo;
	cfg->reconnect_delay = t->reconnect_delay;
	cfg->ctrl_loss_tmo = t->ctrl_loss_tmo;
	cfg->keep_alive_tmo = t->keep_alive_tmo;
	cfg->nr_io_queues = t->nr_io_queues;
	cfg->queue_size = t->queue_size;
}

/* Connects to one subsystem at the target's address. NULL: errno says why. */
static nvme_ctrl_t add_ctrl(struct session *s, const struct fabric_target *t, const char *nqn,
			    bool discovery)
{
	struct nvme_fabrics_config cfg;
	nvme_ctrl_t c = nvme_create_ctrl(s->root, nqn, t->transport, t->traddr, t->host_traddr,
					 t->host_iface, t->trsvcid);

	if (!c)
		return NULL;
	config_of(t, &cfg);
	nvme_ctrl_set_discovery_ctrl(c, discovery);
	if (nvmf_add_ctrl(s->host, c, &cfg) == 0)
		return c;
	nvme_free_ctrl(c);
	return NULL;
}

/* ---- discover ----------------------------------------------------------------------------- */

struct discovery { /* what the child finds out */
	int rc;
	char why[400];
	char numeric[FABRIC_ADDR_MAX];
	bool found;
	unsigned offered;
	char nqns[600]; /* those offered, as many as fit */
};

static void discovery_fail(struct discovery *d, int rc, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void discovery_fail(struct discovery *d, int rc, const char *fmt, ...)
{
	va_list ap;

	d->rc = rc;
	va_start(ap, fmt);
	vsnprintf(d->why, sizeof(d->why), fmt, ap);
	va_end(ap);
}

/* The kernel's own attempt says EIO to whatever goes wrong, and its wait for a greeting has no end.
 */
static int tcp_probe(const struct addrinfo *a)
{
	struct timeval wait = { .tv_sec = probe_s };
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), rc = 0;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	if (connect(fd, a->ai_addr, a->ai_addrlen) != 0)
		rc = errno == EINPROGRESS ? -ETIMEDOUT : -errno;
	close(fd);
	return rc;
}

/* The first address of that name at which somebody listens (rdma: the first). */
static bool resolve(const struct fabric_target *t, struct discovery *d)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	struct addrinfo *list = NULL, *a;
	int rc = getaddrinfo(t->traddr, t->trsvcid, &hints, &list);

	if (rc) {
		discovery_fail(d, -EHOSTUNREACH, "cannot resolve it: %s", gai_strerror(rc));
		return false;
	}
	for (a = list; a; a = a->ai_next) {
		rc = strcmp(t->transport, "tcp") == 0 ? tcp_probe(a) : 0;
		if (rc == 0)
			break;
	}
	if (rc)
		discovery_fail(d, rc, "%s", strerror(-rc));
	else if (getnameinfo(a->ai_addr, a->ai_addrlen, d->numeric, sizeof(d->numeric), NULL, 0,
			     NI_NUMERICHOST) != 0)
		discovery_fail(d, -EINVAL, "it is no address");
	freeaddrinfo(list);
	return d->rc == 0;
}

static void look_for(const struct fabric_target *t, const struct nvmf_discovery_log *log,
		     struct discovery *d)
{
	uint64_t n = le64toh(log->numrec);
	size_t len = 0;

	for (uint64_t i = 0; i < n; i++) {
		const struct nvmf_disc_log_entry *e = &log->entries[i];
		char nqn[FABRIC_NQN_MAX];

		if (e->subtype != NVME_NQN_NVME)
			continue;
		snprintf(nqn, sizeof(nqn), "%.*s", (int)sizeof(nqn) - 1, e->subnqn);
		d->found |= strcmp(nqn, t->nqn) == 0;
		d->offered++;
		if (len + strlen(nqn) + 2 < sizeof(d->nqns))
			len += (size_t)snprintf(d->nqns + len, sizeof(d->nqns) - len, "%s%s",
						len ? ", " : "", nqn);
	}
}

static void discover_run(const void *arg, void *result)
{
	struct fabric_target t = *(const struct fabric_target *)arg;
	struct discovery *d = result;
	struct nvmf_discovery_log *log = NULL;
	nvme_ctrl_t c = NULL;
	struct session s;
	char why[256];

	if (!resolve(&t, d))
		return;
	t.traddr = d->numeric;
	/* Of no use to a connection that lives for one question. */
	t.nr_io_queues = t.queue_size = 0;
	if (session_open(&s, &t))
		c = add_ctrl(&s, &t, NVME_DISC_SUBSYS_NAME, true);
	if (c && nvmf_get_discovery_log(c, &log, 4) == 0) {
		look_for(&t, log, d);
	} else {
		session_reason(&s, errno, why, sizeof(why));
		discovery_fail(d, -EIO, "%s", why);
	}
	if (c) {
		nvme_disconnect_ctrl(c);
		nvme_free_ctrl(c);
	}
	free(log);
	session_close(&s);
}

static int not_in_time(const struct fabric_target *t, int rc, struct te_err *err)
{
	if (rc == -EINTR)
		return te_fail(err, rc, "interrupted");
	return te_fail(err, rc, "no answer in time from %s %s, port %s%s", t->transport, t->traddr,
		       t->trsvcid, rc == -ECHILD ? ": the process that asked has died" : "");
}

int fabric_discover(const struct fabric_target *t, const struct limit *l, char *numeric,
		    struct te_err *err)
{
	static const struct task_ops ops = { .run = discover_run,
					     .size = sizeof(struct discovery) };
	struct discovery d;
	int rc;

	if (access("/dev/nvme-fabrics", F_OK) != 0)
		return te_fail(err, -ENODEV,
			       "there is no /dev/nvme-fabrics: load the kernel's module, "
			       "modprobe nvme-%s",
			       t->transport);
	rc = task_run(&ops, t, l, &d, err);
	if (rc)
		return rc == -ETIMEDOUT || rc == -EINTR || rc == -ECHILD ? not_in_time(t, rc, err)
									 : rc;
	if (d.rc)
		return te_fail(err, d.rc, "cannot reach %s %s, port %s: %s", t->transport,
			       t->traddr, t->trsvcid, d.why);
	if (!d.found)
		return te_fail(err, -ENOENT, "%s %s, port %s offers no '%s' to this host; it %s%s",
			       t->transport, t->traddr, t->trsvcid, t->nqn,
			       d.offered ? "offers " : "offers nothing", d.nqns);
	snprintf(numeric, FABRIC_ADDR_MAX, "%s", d.numeric);
	return 0;
}

/* ---- connect and disconnect --------------------------------------------------------------- */

struct connection {
	int rc;
	char why[256];
	char name[FABRIC_NAME_MAX];
};

/* By sysfs: libnvme would look at the whole tree first. */
static int delete_ctrl(const char *name)
{
	char path[100];
	int fd, rc = 0;

	snprintf(path, sizeof(path), "/sys/class/nvme/%s/delete_controller", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (write(fd, "1", 1) != 1 && errno != ENODEV)
		rc = -errno;
	close(fd);
	return rc;
}

static void connect_run(const void *arg, void *result)
{
	const struct fabric_target *t = arg;
	struct connection *r = result;
	nvme_ctrl_t c = NULL;
	struct session s;

	errno = ENOMEM;
	if (session_open(&s, t))
		c = add_ctrl(&s, t, t->nqn, false);
	if (c) {
		snprintf(r->name, sizeof(r->name), "%s", nvme_ctrl_get_name(c));
	} else {
		r->rc = -EIO;
		session_reason(&s, errno, r->why, sizeof(r->why));
	}
	/* Freed with the tree. */
	session_close(&s);
}

static void connect_undo(const void *arg, void *result)
{
	const struct connection *r = result;

	(void)arg;
	if (*r->name)
		delete_ctrl(r->name);
}

int fabric_connect(const struct fabric_target *t, const struct limit *l, struct fabric_ctrl *out,
		   struct te_err *err)
{
	static const struct task_ops ops = { .run = connect_run,
					     .undo = connect_undo,
					     .size = sizeof(struct connection) };
	struct connection r;
	int rc = task_run(&ops, t, l, &r, err);

	if (rc)
		return rc == -ETIMEDOUT || rc == -EINTR || rc == -ECHILD ? not_in_time(t, rc, err)
									 : rc;
	if (r.rc)
		return te_fail(err, r.rc, "cannot connect to '%s' at %s %s, port %s: %s", t->nqn,
			       t->transport, t->traddr, t->trsvcid, r.why);
	if (fabric_ctrl(r.name, out))
		return 0;
	return te_fail(err, -ENODEV, "the connection to '%s' (%s) was lost at once", t->nqn,
		       r.name);
}

static void disconnect_run(const void *arg, void *result)
{
	*(int *)result = delete_ctrl(arg);
}

int fabric_disconnect(const char *name, const struct limit *l, struct te_err *err)
{
	static const struct task_ops ops = { .run = disconnect_run, .size = sizeof(int) };
	int done = 0, rc = task_run(&ops, name, l, &done, err);

	if (rc == -ETIMEDOUT)
		return te_fail(err, rc, "cannot disconnect '%s': the kernel is still at it", name);
	if (rc)
		return rc == -EINTR ? te_fail(err, rc, "interrupted") : rc;
	return done ? te_fail(err, done, "cannot disconnect '%s': %s", name, strerror(-done)) : 0;
}
