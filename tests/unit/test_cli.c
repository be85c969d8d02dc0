/* test_cli - values of options, and output helpers. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "out.h"
#include "tap.h"

static void sizes(void)
{
	static const struct {
		const char *text;
		uint64_t want; /* 0: refused */
	} cases[] = {
		{ "1", 1 },
		{ "17", 17 },
		{ "64K", 65536 },
		{ "64k", 65536 },
		{ "4KiB", 4096 },
		{ "16M", 16 << 20 },
		{ "1G", 1 << 30 },
		{ "2T", UINT64_C(2) << 40 },
		{ "4194304T", UINT64_C(1) << 62 },
		{ "4194305T", 0 },
		{ "0", 0 },
		{ "0K", 0 },
		{ "", 0 },
		{ "-1", 0 },
		{ " 1", 0 },
		{ "+1", 0 },
		{ "1KB", 0 },
		{ "1X", 0 },
		{ "1.5G", 0 },
		{ "0x10", 0 },
		{ "18446744073709551616", 0 },
		{ "K", 0 },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t v = 0;
		bool good = cli_size(cases[i].text, &v);

		ok(good == (cases[i].want != 0) && v == cases[i].want, "size '%s'", cases[i].text);
	}
}

static void numbers(void)
{
	uint64_t v = 7;

	ok(cli_u64("5", 1, 5, &v) && v == 5, "whole number at its limit");
	ok(!cli_u64("6", 1, 5, &v) && !cli_u64("0", 1, 5, &v), "whole numbers outside");
	ok(!cli_u64("", 0, 5, &v) && !cli_u64("-1", 0, UINT64_MAX, &v) && !cli_u64("1x", 0, 5, &v),
	   "no whole numbers");
	ok(cli_u64("18446744073709551615", 0, UINT64_MAX, &v) && v == UINT64_MAX, "largest number");
	ok(!cli_u64("18446744073709551616", 0, UINT64_MAX, &v), "one more");
}

static void times(void)
{
	static const struct {
		const char *text;
		double want; /* < 0: refused */
	} cases[] = {
		{ "10", 10 },	 { "0.5", 0.5 }, { "10s", 10 }, { "500ms", 0.5 }, { "2m", 120 },
		{ "1h", 3600 },	 { ".5", 0.5 },	 { "0", 0 },	{ "", -1 },	  { "s", -1 },
		{ "-1", -1 },	 { "1e3", -1 },	 { "inf", -1 }, { "nan", -1 },	  { "0x1", -1 },
		{ "1.2.3", -1 }, { "5 s", -1 },	 { "5d", -1 },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		double v = -1;
		bool good = cli_seconds(cases[i].text, &v);

		ok(good == (cases[i].want >= 0) && v > cases[i].want - 1e-9 &&
			   v < cases[i].want + 1e-9,
		   "time '%s'", cases[i].text);
	}
}

static void units(void)
{
	static const struct {
		double bytes;
		const char *want;
	} cases[] = {
		{ 0, "0 B" },	      { 999, "999 B" },	      { 1000, "1.00 kB" },
		{ 999499, "999 kB" }, { 999600, "1.00 MB" },  { 9.996e9, "10.0 GB" },
		{ 1.5e9, "1.50 GB" }, { 123.4e12, "123 TB" },
	};
	char buf[32];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		ok(strcmp(out_bytes(cases[i].bytes, buf, sizeof(buf)), cases[i].want) == 0,
		   "%s is %s", cases[i].want, buf);
}

static void files(void)
{
	char dir[] = "/tmp/test_cli.XXXXXX", path[64];
	struct te_err err = { 0 };
	json_t *doc = json_pack("{s:i}", "a", 1);
	char text[32] = "";
	FILE *f;

	ok(mkdtemp(dir) != NULL, "directory");
	snprintf(path, sizeof(path), "%s/ready", dir);
	ok(out_file(path, doc, &err) == 0, "file written: %s", err.msg);
	f = fopen(path, "r");
	ok(f && fgets(text, sizeof(text), f) && strcmp(text, "{\"a\":1}\n") == 0,
	   "it holds the document");
	if (f)
		fclose(f);
	out_file_remove(path);
	ok(access(path, F_OK) != 0, "and is removed");
	ok(rmdir(dir) == 0, "nothing else was left");
	ok(out_file(path, doc, &err) != 0 && strstr(err.msg, path), "no directory: %s", err.msg);
	ok(out_file("/dev/full", doc, &err) != 0, "full device: %s", err.msg);
	out_file_remove("/dev/full");
	ok(access("/dev/full", F_OK) == 0, "a device is never removed");
	json_decref(doc);
}

int main(void)
{
	sizes();
	numbers();
	times();
	units();
	files();
	return tap_end();
}
