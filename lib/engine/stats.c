/* stats.c - counters: paths, totals, Prometheus text, the periodic log line. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

/* The i-th way that p's bytes went; false: there is none. Retries are the peer's, told with its
 * first. */
static bool path_of(struct te_peer *p, size_t i, struct te_path *out)
{
	char remote[sizeof(p->remote)];

	memset(out, 0, sizeof(*out));
	if (p->ops->path) {
		if (!p->ops->path(p, i, out))
			return false;
		te_strlcpy(remote, out->remote, sizeof(remote));
	} else if (i) {
		return false;
	} else {
		out->slices = atomic_load(&p->slices);
		out->bytes = atomic_load(&p->bytes);
		te_strlcpy(out->local, p->local, sizeof(out->local));
		te_strlcpy(remote, p->remote, sizeof(remote));
	}
	out->retries += i ? 0 : atomic_load(&p->retries);
	te_strlcpy(out->transport, p->ops->name, sizeof(out->transport));
	snprintf(out->remote, sizeof(out->remote), "%.128s (%.200s)", p->segment, remote);
	return true;
}

static bool same_path(const struct te_path *a, const struct te_path *b)
{
	return !strcmp(a->transport, b->transport) && !strcmp(a->local, b->local) &&
	       !strcmp(a->remote, b->remote);
}

static void add_path(struct te_path *to, const struct te_path *p)
{
	to->slices += p->slices;
	to->bytes += p->bytes;
	to->retries += p->retries;
}

static void keep_path(struct te_engine *e, const struct te_path *path)
{
	struct te_path_sum *s;

	if (!path->slices && !path->retries)
		return;
	for (s = e->path_sums; s; s = s->next)
		if (same_path(&s->path, path)) {
			add_path(&s->path, path);
			return;
		}
	s = calloc(1, sizeof(*s));
	if (!s)
		return;
	s->path = *path;
	s->next = e->path_sums;
	e->path_sums = s;
}

/* peers_lock held. */
void te_stats_peer_gone(struct te_engine *e, struct te_peer *p)
{
	struct te_path path;

	for (size_t i = 0; path_of(p, i, &path); i++)
		keep_path(e, &path);
}

/* A path that is listed already gets the counters added. */
static size_t collect(struct te_path *out, size_t max, size_t n, const struct te_path *p)
{
	for (size_t i = 0; i < n && i < max; i++)
		if (same_path(&out[i], p)) {
			add_path(&out[i], p);
			return n;
		}
	if (n < max)
		out[n] = *p;
	return n + 1;
}

int te_engine_paths(struct te_engine *e, struct te_path *out, size_t max)
{
	size_t n = 0;

	pthread_mutex_lock(&e->peers_lock);
	for (struct te_path_sum *s = e->path_sums; s; s = s->next)
		n = collect(out, max, n, &s->path);
	for (struct te_peer *p = e->all_peers; p; p = p->all_next) {
		struct te_path path;

		for (size_t i = 0; path_of(p, i, &path); i++)
			if (!p->ops->path || path.slices || path.retries)
				n = collect(out, max, n, &path);
	}
	pthread_mutex_unlock(&e->peers_lock);
	return (int)n;
}

void te_engine_totals(struct te_engine *e, struct te_totals *out)
{
	*out = (struct te_totals){
		.requests = atomic_load(&e->requests),
		.bytes = atomic_load(&e->bytes),
		.failed = atomic_load(&e->failed),
		.retries = atomic_load(&e->retries),
		.refreshes = atomic_load(&e->refreshes),
		.notifications = atomic_load(&e->notifications),
		.served_requests = atomic_load(&e->served_requests),
		.served_bytes = atomic_load(&e->served_bytes),
		.refused = atomic_load(&e->refused),
		.publications = atomic_load(&e->publications),
		.batches = atomic_load(&e->batches),
	};
}

static void counter(FILE *f, const char *name, const char *help, uint64_t value)
{
	fprintf(f, "# HELP te_%s %s\n# TYPE te_%s counter\nte_%s %" PRIu64 "\n", name, help, name,
		name, value);
}

static void latency(FILE *f, const struct te_engine *e)
{
	static const double q[] = { 0.5, 0.9, 0.99, 0.999 };

	fprintf(f, "# HELP te_latency_seconds Submit to completion of requests.\n"
		   "# TYPE te_latency_seconds summary\n");
	for (size_t i = 0; i < ARRAY_SIZE(q); i++)
		fprintf(f, "te_latency_seconds{quantile=\"%g\"} %.9f\n", q[i],
			(double)te_hist_quantile(&e->latency, q[i]) / 1e9);
	fprintf(f, "te_latency_seconds_sum %.9f\nte_latency_seconds_count %" PRIu64 "\n",
		(double)atomic_load(&e->latency.sum) / 1e9, atomic_load(&e->latency.count));
}

static void buffers(FILE *f, struct te_engine *e)
{
	struct te_desc *d = te_publish_desc(e);
	uint64_t bytes = 0;

	if (!d)
		return;
	for (size_t i = 0; i < d->nbuffers; i++)
		bytes += d->buffers[i].length;
	fprintf(f,
		"# HELP te_buffers Published buffers.\n# TYPE te_buffers gauge\nte_buffers %zu\n"
		"# HELP te_buffer_bytes Bytes of published buffers.\n# TYPE te_buffer_bytes gauge\n"
		"te_buffer_bytes %" PRIu64 "\n",
		d->nbuffers, bytes);
	te_desc_free(d);
}

static void transport_counter(void *arg, const char *name, const char *help, bool gauge,
			      uint64_t value)
{
	fprintf(arg, "# HELP te_%s %s\n# TYPE te_%s %s\nte_%s %" PRIu64 "\n", name, help, name,
		gauge ? "gauge" : "counter", name, value);
}

static void write_metrics(FILE *f, struct te_engine *e)
{
	struct te_totals t;

	te_engine_totals(e, &t);
	counter(f, "requests_total", "Requests of ours that completed.", t.requests);
	counter(f, "bytes_total", "Bytes that our requests moved.", t.bytes);
	counter(f, "failed_total", "Requests of ours that ended badly.", t.failed);
	counter(f, "retries_total", "Slices tried again.", t.retries);
	counter(f, "refreshes_total", "Descriptors fetched.", t.refreshes);
	counter(f, "notifications_total", "Notifications delivered.", t.notifications);
	counter(f, "served_requests_total", "Requests of peers that we served over tcp.",
		t.served_requests);
	counter(f, "served_bytes_total", "Bytes moved for peers over tcp.", t.served_bytes);
	counter(f, "refused_total", "Requests of peers outside registered buffers.", t.refused);
	counter(f, "publications_total", "Puts of our own entries.", t.publications);
	for (size_t i = 0; i < TE_MAX_TRANSPORTS; i++)
		if (e->transports[i] && e->transports[i]->ops->counters)
			e->transports[i]->ops->counters(e->transports[i], f, transport_counter);
	buffers(f, e);
	latency(f, e);
}

char *te_engine_metrics(struct te_engine *e)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	write_metrics(f, e);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

/* MC_TE_METRIC asked for it, so it shows at the default level too. */
void te_stats_log(struct te_engine *e)
{
	double s = (double)e->conf.metric_interval_s;
	struct te_totals t, *last = &e->logged;

	te_engine_totals(e, &t);
	te_log(TE_LOG_WARNING,
	       "[Metrics] Transfer Engine Stats (over last %.0fs): Throughput: %.2f MB/s, %.0f "
	       "requests/s"
	       " | served %.2f MB/s | failed %" PRIu64 " | retries %" PRIu64
	       " | latency since start p50 %.1f us, p99 %.1f us",
	       s, (double)(t.bytes - last->bytes) / 1e6 / s,
	       (double)(t.requests - last->requests) / s,
	       (double)(t.served_bytes - last->served_bytes) / 1e6 / s, t.failed - last->failed,
	       t.retries - last->retries, (double)te_hist_quantile(&e->latency, 0.5) / 1e3,
	       (double)te_hist_quantile(&e->latency, 0.99) / 1e3);
	*last = t;
}
