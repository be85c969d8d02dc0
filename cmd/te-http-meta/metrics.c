/* metrics.c - /metrics, Prometheus text. */
#include <inttypes.h>
#include <stdio.h>

#include "api.h"

static const char *const methods[API_METHODS] = {
	[API_GET] = "GET",   [API_PUT] = "PUT",	    [API_DELETE] = "DELETE",
	[API_HEAD] = "HEAD", [API_OTHER] = "other",
};

enum api_method metrics_method(const char *name)
{
	int i;

	for (i = 0; i < API_OTHER; i++) {
		if (!strcmp(name, methods[i]))
			break;
	}
	return (enum api_method)i;
}

static void metric(FILE *f, const char *name, const char *type, const char *help, uint64_t value)
{
	fprintf(f,
		"# HELP te_http_meta_%s %s\n# TYPE te_http_meta_%s %s\nte_http_meta_%s %" PRIu64
		"\n",
		name, help, name, type, name, value);
}

static void requests(FILE *f, const struct api *a)
{
	unsigned m, status;

	fputs("# HELP te_http_meta_requests_total Requests answered.\n"
	      "# TYPE te_http_meta_requests_total counter\n",
	      f);
	for (m = 0; m < API_METHODS; m++) {
		for (status = 0; status < API_STATUS_MAX; status++) {
			if (a->replies[m][status])
				fprintf(f,
					"te_http_meta_requests_total{method=\"%s\",status=\"%u\"} "
					"%" PRIu64 "\n",
					methods[m], status, a->replies[m][status]);
		}
	}
}

void metrics_request(struct api *a, struct http_request *r)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (!f) {
		api_text(r, 503, "out of memory");
		return;
	}
	metric(f, "keys", "gauge", "Keys in the store.", a->store.keys);
	metric(f, "bytes", "gauge", "Bytes of all values.", a->store.bytes);
	metric(f, "revision", "gauge", "Revision of the last change.", a->store.visible);
	metric(f, "watchers", "gauge", "Watch requests that wait.", a->watcher_count);
	metric(f, "connections", "gauge", "Open connections.", http_connections(a->http));
	metric(f, "commits_total", "counter", "Transactions written to the disk.",
	       a->disk ? disk_commits(a->disk) : 0);
	requests(f, a);
	if (fclose(f))
		api_text(r, 503, "out of memory");
	else
		http_reply(r, 200, "text/plain; version=0.0.4; charset=utf-8", text, len, NULL);
	free(text);
}
