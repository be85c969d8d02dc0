/*
 * out.h - text and JSON output of the commands, after one pattern: a command fills a plain struct, and a table of
 * functions (one table for text, one for JSON) prints it. No `if (json)` elsewhere.
 */
#ifndef TE_OUT_H
#define TE_OUT_H

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "te_err.h"

/* One document on stdout, indented on a terminal and compact otherwise, and a newline; takes the reference. */
void out_json(json_t *doc);
/* The same document into a file that appears whole: written beside it, then renamed. What is no regular file (a pipe,
   /dev/stderr) is written to as it is. doc stays the caller's. */
int out_file(const char *path, const json_t *doc, struct te_err *err);
/* Take it away again, if it is a regular file. */
void out_file_remove(const char *path);
/* "1.50 GB": value in decimal units with three significant digits, into buf; returns buf. */
const char *out_bytes(double bytes, char *buf, size_t size);
/* One line of text and a newline. Control characters in it become '?': names and reasons come from peers and stores, and
   may neither make lines of their own nor steer a terminal. */
void out_line(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void out_vline(FILE *f, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* Colour and progress: stderr/stdout a terminal, and NO_COLOR unset. */
bool out_is_terminal(FILE *f);

#endif
