/* report.c - what the forms of a report have in common, and the environment of a run. */
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

const char *report_size(uint64_t n, char *buf, size_t size)
{
	static const char *const units[] = { "", " KiB", " MiB", " GiB", " TiB" };
	size_t u = 0;

	while (n && n % 1024 == 0 && u + 1 < sizeof(units) / sizeof(*units)) {
		n /= 1024;
		u++;
	}
	snprintf(buf, size, "%llu%s", (unsigned long long)n, units[u]);
	return buf;
}

const char *report_transports(const struct case_result *r, char *buf, size_t size)
{
	size_t i, k, n = 0;

	buf[0] = '\0';
	for (i = 0; i < r->npaths; i++) {
		for (k = 0; k < i; k++) {
			if (strcmp(r->paths[k].transport, r->paths[i].transport) == 0)
				break;
		}
		if (k == i && n < size)
			n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? "+" : "",
					      r->paths[i].transport);
	}
	return n ? buf : "-";
}

struct case_result report_total(const struct run *run)
{
	struct case_result t = { 0 };
	size_t i;

	for (i = 0; i < run->ncases; i++) {
		t.seconds += run->cases[i].seconds;
		t.requests += run->cases[i].requests;
		t.bytes += run->cases[i].bytes;
		t.batches += run->cases[i].batches;
		t.errors += run->cases[i].errors;
		t.mismatches += run->cases[i].mismatches;
	}
	return t;
}

/* ---- environment -------------------------------------------------------------------------------
 */

static void cpu_model(char *buf, size_t size)
{
	char line[512], *colon;
	FILE *f = fopen("/proc/cpuinfo", "re");

	snprintf(buf, size, "unknown");
	while (f && fgets(line, sizeof(line), f)) {
		colon = strchr(line, ':');
		if (!colon || strncmp(line, "model name", 10) != 0)
			continue;
		colon[strcspn(colon, "\n")] = '\0';
		snprintf(buf, size, "%s", colon[1] == ' ' ? colon + 2 : colon + 1);
		break;
	}
	if (f)
		fclose(f);
}

static void add_tunable(void *arg, const struct te_conf_entry *e)
{
	if (strcmp(e->origin, "environment") == 0)
		json_object_set_new(arg, e->name, json_string(e->value));
}

static json_t *words(int argc, char **argv)
{
	json_t *list = json_array();
	int i;

	for (i = 0; i < argc; i++) {
		/* Words of a command line need not be UTF-8. */
		json_t *word = json_string(argv[i]);

		json_array_append_new(list, word ? word : json_string("?"));
	}
	return list;
}

json_t *report_environment(const struct run *run)
{
	const struct session *s = run->session;
	const time_t now = time(NULL);
	json_t *env = json_object(), *tunables = json_object(), *segments = json_array();
	char date[32] = "", cpu[256];
	struct utsname u = { 0 };
	struct tm tm;
	size_t i;

	uname(&u);
	cpu_model(cpu, sizeof(cpu));
	if (gmtime_r(&now, &tm))
		strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &tm);
	te_conf_each(add_tunable, tunables);
	if (s->conf.file_sync)
		json_object_set_new(tunables, "MC_TE_FILE_SYNC", json_string("1"));
	for (i = 0; i < s->nsegments; i++)
		json_array_append_new(segments, json_string(s->segments[i].name));
	json_object_set_new(env, "version", json_string(te_version()));
	json_object_set_new(env, "date", json_string(date));
	json_object_set_new(env, "host", json_string(u.nodename));
	json_object_set_new(env, "kernel", json_string(u.release));
	json_object_set_new(env, "cpu", json_string(cpu));
	json_object_set_new(env, "cpus", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
	json_object_set_new(env, "command", words(run->argc, run->argv));
	json_object_set_new(env, "tunables", tunables);
	json_object_set_new(env, "store", s->store ? json_string(s->store) : json_null());
	json_object_set_new(env, "segments", segments);
	return env;
}
