/* baseline.c - work and raw loop by turns. */
#include "baseline.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "raw.h"

enum { PAIRS_MIN = 8, FDS_MAX = 4096 };
static const double round_seconds = 0.2;

/* ---- which limit ----------------------------------------------------------------------------- */

static bool is_local_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return a4->sin_addr.s_addr == b4->sin_addr.s_addr ||
		       ntohl(a4->sin_addr.s_addr) >> 24 == 127;
	return IN6_ARE_ADDR_EQUAL(&a6->sin6_addr, &b6->sin6_addr) ||
	       IN6_IS_ADDR_LOOPBACK(&a6->sin6_addr);
}

static unsigned port_of(const struct sockaddr_storage *a)
{
	return ntohs(a->ss_family == AF_INET
			     ? ((const struct sockaddr_in *)(const void *)a)->sin_port
			     : ((const struct sockaddr_in6 *)(const void *)a)->sin6_port);
}

/* Our connections to the data ports of the segments; -EXDEV if one leaves this host. */
static int count_connections(const struct session *s)
{
	struct sockaddr_storage self, peer;
	socklen_t self_len, peer_len;
	unsigned port;
	int fd, n = 0;
	size_t i;

	for (fd = 0; fd < FDS_MAX; fd++) {
		self_len = sizeof(self);
		peer_len = sizeof(peer);
		if (getsockname(fd, (struct sockaddr *)&self, &self_len) ||
		    getpeername(fd, (struct sockaddr *)&peer, &peer_len) ||
		    (peer.ss_family != AF_INET && peer.ss_family != AF_INET6))
			continue;
		port = port_of(&peer);
		for (i = 0; i < s->nsegments; i++) {
			if (s->segments[i].failed || s->segments[i].desc->tcp_data_port != port)
				continue;
			if (!is_local_address(&self, &peer))
				return -EXDEV;
			n++;
			break;
		}
	}
	/* What reads back for --verify has as many of its own. */
	if (s->checker)
		n /= 2;
	return n ? n : 1;
}

/* The one transport of all segments. */
static const char *transport_of(const struct session *s)
{
	const char *all = NULL, *t;
	size_t i;

	for (i = 0; i < s->nsegments; i++) {
		if (s->segments[i].failed)
			continue;
		t = te_segment_transport(s->engine, s->segments[i].id);
		if (!t || (all && strcmp(all, t) != 0))
			return NULL;
		all = t;
	}
	return all;
}

static int pick_limit(const struct crew *c, struct raw_spec *spec, struct te_err *err)
{
	const char *t = transport_of(c->session);
	int n;

	spec->lanes = (unsigned)c->spec.threads;
	if (t && strcmp(t, "local") == 0) {
		spec->kind = RAW_COPY;
	} else if (t && strcmp(t, "shm") == 0) {
		/* What the kernel gives two processes, whether or not the target's memory can be
		 * mapped. */
		spec->kind = RAW_VM;
	} else if (t && strcmp(t, "tcp") == 0) {
		n = count_connections(c->session);
		if (n < 0)
			return te_fail(err, n,
				       "--baseline: the raw limit is that of this host, but the "
				       "target is on another");
		spec->kind = RAW_TCP;
		spec->lanes = (unsigned)n;
	} else if (t && strcmp(t, "nvmeof") == 0) {
		spec->kind = RAW_FILE;
	} else {
		return te_fail(
			err, -EOPNOTSUPP, "--baseline: no raw limit is measured for %s%s",
			t ? t : "segments of different transports",
			t && strcmp(t, "rdma") == 0
				? "; compare with ib_read_bw and ib_write_bw between the same NICs"
				: "");
	}
	return 0;
}

int baseline_check(const struct crew *c, struct te_err *err)
{
	struct raw_spec spec;
	struct raw_files *files;
	int rc = pick_limit(c, &spec, err);

	if (!rc && spec.kind == RAW_FILE) {
		rc = raw_files_open(c->session, &c->spec, &files, err);
		if (!rc)
			raw_files_close(files);
	}
	return rc == -EOPNOTSUPP ? rc : 0;
}

static int describe(const struct crew *c, struct raw_spec *spec, struct raw_files **files,
		    struct te_err *err)
{
	size_t i;
	int rc;

	*spec = (struct raw_spec){
		.op = c->spec.op,
		.block = c->spec.block,
		.requests = c->spec.batch * c->spec.threads * session_alive(c->session),
	};
	for (i = 0; i < c->session->nsegments; i++)
		spec->target_bytes += c->slots[2 * i].count * c->spec.block;
	rc = pick_limit(c, spec, err);
	if (rc || spec->kind != RAW_FILE)
		return rc;
	spec->requests *= crew_ways(c);
	spec->target_bytes = 0;
	rc = raw_files_open(c->session, &c->spec, files, err);
	spec->files = *files;
	return rc;
}

/* ---- figures --------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Sorts v. */
static double quantile(double *v, size_t n, double q)
{
	const double at = q * (double)(n - 1);
	const size_t low = (size_t)at;

	qsort(v, n, sizeof(*v), by_value);
	return low + 1 < n ? v[low] + (at - (double)low) * (v[low + 1] - v[low]) : v[low];
}

static void figures(double *work, double *raw, double *ratio, size_t n, struct case_result *out)
{
	size_t i;

	for (i = 0; i < n; i++)
		ratio[i] = raw[i] > 0 ? work[i] / raw[i] : 0;
	out->has_baseline = n > 0;
	if (!n)
		return;
	out->raw_bytes_per_second = quantile(raw, n, 0.5);
	if (out->raw_bytes_per_second > 0)
		out->ratio = quantile(work, n, 0.5) / out->raw_bytes_per_second;
	out->q1 = quantile(ratio, n, 0.25);
	out->q3 = quantile(ratio, n, 0.75);
}

/* ---- by turns -------------------------------------------------------------------------------- */

struct turns {
	struct crew *crew;
	struct raw *raw;
	const struct round *all;
	size_t n, done;
	double *work, *rate, *ratio; /* n each: bytes a second of the work and of the raw loop */
	struct round_result *sum;
};

static size_t turns_of(const struct round *all)
{
	const double rounds = (double)all->ns / 1e9 / round_seconds;

	if (all->ns)
		return rounds > PAIRS_MIN ? (size_t)ceil(rounds) : PAIRS_MIN;
	return all->tickets < PAIRS_MIN ? (size_t)all->tickets : PAIRS_MIN;
}

/* Round i of the work. */
static struct round part(const struct turns *t, size_t i)
{
	struct round r = *t->all;

	if (r.ns) {
		r.ns = (uint64_t)(round_seconds * 1e9);
		return r;
	}
	r.tickets = t->all->tickets / t->n + (i < t->all->tickets % t->n);
	/* The short request, if there is one, is the very last. */
	if (i + 1 < t->n)
		r.last = t->crew->spec.block;
	return r;
}

static int run_work(struct turns *t)
{
	const struct round r = part(t, t->done);
	struct round_result got;
	int rc = crew_round(t->crew, &r, &got);

	round_result_add(t->sum, &got);
	t->work[t->done] = per_second(got.bytes, got.seconds);
	return rc;
}

static int run_raw(struct turns *t, struct te_err *err)
{
	double rate = raw_round(t->raw, round_seconds, err);

	t->rate[t->done] = rate;
	return rate < 0 ? (int)rate : 0;
}

/* In changing order, so that neither always comes first. */
static int take_turns(struct turns *t, struct te_err *err)
{
	int rc = 0;

	while (!rc && t->done < t->n && session_alive(t->crew->session)) {
		if (t->done % 2) {
			rc = run_raw(t, err);
			rc = rc ? rc : run_work(t);
		} else {
			rc = run_work(t);
			rc = rc ? rc : run_raw(t, err);
		}
		t->done += !rc;
	}
	return rc;
}

int baseline_run(struct crew *c, const struct round *all, struct round_result *sum,
		 struct case_result *out, struct te_err *err)
{
	struct turns t = { .crew = c, .all = all, .sum = sum, .n = turns_of(all) };
	struct raw_files *files = NULL;
	struct raw_spec spec;
	int rc;

	t.work = calloc(3 * t.n, sizeof(*t.work));
	if (!t.work)
		return te_fail(err, -ENOMEM, "out of memory");
	t.rate = t.work + t.n;
	t.ratio = t.rate + t.n;
	rc = describe(c, &spec, &files, err);
	if (!rc)
		rc = raw_open(&spec, &t.raw, err);
	if (!rc) {
		rc = take_turns(&t, err);
		raw_close(t.raw);
	}
	raw_files_close(files);
	figures(t.work, t.rate, t.ratio, t.done, out);
	free(t.work);
	return rc;
}
