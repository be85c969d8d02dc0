/* out.c - text and JSON output of the commands. */
#include "out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void out_json(json_t *doc)
{
	size_t flags = JSON_REAL_PRECISION(12);

	flags |= isatty(fileno(stdout)) ? JSON_INDENT(2) : JSON_COMPACT;
	/* A failed write is found by cli_finish(). */
	json_dumpf(doc, stdout, flags);
	putchar('\n');
	json_decref(doc);
}

static int write_doc(int fd, const json_t *doc)
{
	char *text = json_dumps(doc, JSON_COMPACT | JSON_REAL_PRECISION(12));
	int rc = -ENOMEM;

	if (text)
		rc = dprintf(fd, "%s\n", text) < 0 ? -errno : 0;
	free(text);
	if (close(fd) != 0 && !rc)
		rc = -errno;
	return rc;
}

static int write_in_place(const char *path, const json_t *doc)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : write_doc(fd, doc);
}

static int write_and_rename(const char *path, const json_t *doc)
{
	char tmp[4096];
	int fd, rc;

	if (snprintf(tmp, sizeof(tmp), "%s.%ld.tmp", path, (long)getpid()) >= (int)sizeof(tmp))
		return -ENAMETOOLONG;
	fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	rc = write_doc(fd, doc);
	if (!rc && rename(tmp, path) != 0)
		rc = -errno;
	if (rc)
		unlink(tmp);
	return rc;
}

static bool is_special(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

int out_file(const char *path, const json_t *doc, struct te_err *err)
{
	int rc = is_special(path) ? write_in_place(path, doc) : write_and_rename(path, doc);

	return rc ? te_fail(err, rc, "cannot write '%s': %s", path, strerror(-rc)) : 0;
}

void out_file_remove(const char *path)
{
	if (!is_special(path))
		unlink(path);
}

const char *out_bytes(double bytes, char *buf, size_t size)
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB" };
	size_t u = 0;

	/* 999.5 would be rounded up to four digits. */
	while (bytes >= 999.5 && u + 1 < sizeof(units) / sizeof(*units)) {
		bytes /= 1000;
		u++;
	}
	if (u == 0 && bytes == (double)(long)bytes)
		snprintf(buf, size, "%.0f B", bytes);
	else
		snprintf(buf, size, "%.*f %s",
			 bytes < 9.995	 ? 2
			 : bytes < 99.95 ? 1
					 : 0,
			 bytes, units[u]);
	return buf;
}

static void tame(char *text)
{
	unsigned char *p = (unsigned char *)text;

	for (; *p; p++) {
		if (*p < 0x20 || *p == 0x7f)
			*p = '?';
		/* U+0080 to U+009F: the other control characters */
		else if (*p == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f)
			p[0] = p[1] = '?';
	}
}

void out_vline(FILE *f, const char *fmt, va_list ap)
{
	char *text;

	if (vasprintf(&text, fmt, ap) < 0) {
		fputs("out of memory\n", f);
		return;
	}
	tame(text);
	fprintf(f, "%s\n", text);
	free(text);
}

void out_line(FILE *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	out_vline(f, fmt, ap);
	va_end(ap);
}

bool out_is_terminal(FILE *f)
{
	const char *no_color = getenv("NO_COLOR");

	return isatty(fileno(f)) && !(no_color && *no_color);
}
