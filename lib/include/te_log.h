/*
 * te_log.h - libte's one log.
 *
 * Lines at or above the level go to a file in MC_LOG_DIR, or to standard error, until a program
 * sets a function of its own. The level and the sink are the process's. Any thread may log.
 */
#ifndef TE_LOG_H
#define TE_LOG_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum te_log_level { TE_LOG_TRACE, TE_LOG_INFO, TE_LOG_WARNING, TE_LOG_ERROR };

/* One line, without newline. Called from any thread, maybe with locks of libte held: it may not call libte. */
struct te_log_sink {
	void (*line)(void *arg, enum te_log_level level, const char *text);
	void *arg;
};

/* NULL brings the default back. The sink is copied. */
void te_log_set_sink(const struct te_log_sink *sink);
/* Lines below are dropped. Beats MC_LOG_LEVEL (which te_conf_read() applies only while nobody
   has called this). */
void te_log_set_level(enum te_log_level level);
bool te_log_wants(enum te_log_level level);
/* Directory for the default sink, NULL or "" for standard error. Copied. */
void te_log_set_dir(const char *dir);

void te_log(enum te_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define te_trace(...) do { if (te_log_wants(TE_LOG_TRACE)) te_log(TE_LOG_TRACE, __VA_ARGS__); } while (0)
#define te_info(...) do { if (te_log_wants(TE_LOG_INFO)) te_log(TE_LOG_INFO, __VA_ARGS__); } while (0)
#define te_warn(...) te_log(TE_LOG_WARNING, __VA_ARGS__)
#define te_error(...) te_log(TE_LOG_ERROR, __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
