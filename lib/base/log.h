/* log.h - what the rest of libte may tell the log, beside te_log.h. */
#ifndef TE_BASE_LOG_H
#define TE_BASE_LOG_H

#include "te_log.h"

/* Level and directory from the environment: each gives way to what the program has set itself. */
void te_log_from_env(enum te_log_level level, const char *dir);

#endif
