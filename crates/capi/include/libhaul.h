/*
 * libhaul: copies and synchronizes file trees on Linux.
 *
 *     haul_job *job = haul_new(HAUL_COPY);
 *     haul_source(job, "project");
 *     haul_target(job, "backup");
 *     haul_set(job, HAUL_RECURSIVE, 1);
 *     haul_status status = haul_run(job);
 *     for (size_t i = 0; i < haul_problem_count(job); i++) {
 *         haul_problem problem = { .size = sizeof problem };
 *         haul_problem_at(job, i, &problem);
 *         fprintf(stderr, "%s\n", problem.message);
 *     }
 *     haul_free(job);
 *
 * A job is described, run once, asked for its result, and freed. The library prints nothing, and
 * changes no signal handler, umask or limit of the process.
 *
 * Threads: any number of jobs may run at once. haul_cancel and haul_counts_of may be called for a
 * job from any thread while it runs; everything else by one thread at a time. haul_cancel may also
 * be called by a signal handler. The library's own threads run none of the program's handlers.
 *
 * Growth: structures begin with their size, which the caller sets. A newer library has more fields,
 * options and statuses, and fills in no more of a structure than the caller has. No function
 * changes its meaning while the name of the library stays libhaul.so.0.
 */
#ifndef LIBHAUL_H
#define LIBHAUL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct haul_job haul_job;

typedef enum haul_tool {
    /* As cp: to the target, or into it if it is a directory. */
    HAUL_COPY = 0,
    /* Makes the target directory equal to the source, with all attributes (haul sync). */
    HAUL_SYNC = 1
} haul_tool;

typedef enum haul_status {
    /* Everything was done. */
    HAUL_OK = 0,
    /* Something was not done: see the problems. Everything else was. */
    HAUL_INCOMPLETE = 1,
    /* The job was cancelled before it was complete. */
    HAUL_CANCELLED = 2,
    /* The job could not start, and nothing was touched: see the problem. */
    HAUL_NOT_STARTED = 3,
    /* A wrong argument: NULL, an unknown option, a value out of range, a call at the wrong time.
     * From haul_run also a job that isn't described completely, or makes no sense: see the problem.
     * It may be corrected and run. */
    HAUL_INVALID = 4,
    /* An error in the library. What was done is unknown. */
    HAUL_INTERNAL = 5
} haul_status;

/* Options of a job. A switch is 0 (off, the default) or 1. */
typedef enum haul_option {
    /* Copies directories with their content, and links as links. Copies only. */
    HAUL_RECURSIVE = 1,
    /* Preserves all attributes and hard links, and reports those it can't. Copies only: a sync
     * always does. If the target's file system has no extended attributes, that is a warning. */
    HAUL_PRESERVE = 2,
    /* The target is the copy's own path, not a directory to copy into. One source only. */
    HAUL_EXACT_TARGET = 3,
    /* Deletes what only the target has, once everything else has succeeded. This and the options
     * below until HAUL_BY_CONTENT are for syncs only. */
    HAUL_DELETE = 4,
    /* Maximum number of entries to delete; if there are more, deletes nothing. By default, half of
     * a target with more than 1,000 entries. */
    HAUL_MAX_DELETE = 5,
    /* Deletes also for an empty source, from the home directory, and from the root of a mounted
     * file system. */
    HAUL_REALLY = 6,
    /* Finds changed files by their content, not by size and time. */
    HAUL_BY_CONTENT = 7,
    /* Changes nothing; counts what would be done. */
    HAUL_DRY_RUN = 8,
    /* Reads each file again from the target's device, and compares. */
    HAUL_VERIFY = 9,
    /* Flushes everything to storage in the end. */
    HAUL_FSYNC = 10,
    /* Number of workers, 1 to 1024. Chosen by the library otherwise. */
    HAUL_JOBS = 11
} haul_option;

/* How much was done. */
typedef struct haul_counts {
    size_t size; /* sizeof(haul_counts), set by the caller */
    uint64_t discovered;  /* entries seen so far */
    uint64_t finished;    /* those of them that are complete, failed or not */
    uint64_t files;       /* regular files done */
    uint64_t directories; /* directories done */
    uint64_t bytes;       /* bytes of regular files done, holes included */
    uint64_t unchanged;   /* entries that were the same already */
    uint64_t deleted;     /* entries deleted */
    uint64_t excluded;    /* entries left out by rules */
} haul_counts;

/* A problem. Its strings belong to the job, and are gone when it is freed. */
typedef struct haul_problem {
    size_t size;         /* sizeof(haul_problem), set by the caller */
    const char *message; /* what went wrong: a sentence in UTF-8, on one line, for a log */
    const char *kind;    /* which problem it is: a stable word, such as "cannot-stat" */
    const char *path;    /* the path concerned, any bytes; ends with NUL. NULL if there is none */
    size_t path_length;  /* its length without the NUL */
    int error_number;    /* errno of the call that failed, or 0 */
    int is_warning;      /* 1 for a warning: the entry was still processed */
} haul_problem;

/*
 * Called by the thread in haul_run, about ten times a second and once in the end. Anything but 0
 * cancels the job. It may call haul_cancel and haul_counts_of, and nothing else of the job.
 */
typedef int (*haul_progress)(const haul_counts *counts, void *data);

/* The version of the library, such as "0.1.0". */
const char *haul_version(void);

/* Creates a job. NULL for an unknown tool. */
haul_job *haul_new(haul_tool tool);

/* Frees a job, which must not be running. NULL is fine. */
void haul_free(haul_job *job);

/* Adds a source. A copy with several sources copies them into the target. */
haul_status haul_source(haul_job *job, const char *path);

/* Sets the target. */
haul_status haul_target(haul_job *job, const char *path);

/* Sets an option. */
haul_status haul_set(haul_job *job, haul_option option, int64_t value);

/* Adds an exclusion rule, in .gitignore syntax, but not a comment or an empty line. The last
 * matching rule wins. A sync deletes nothing that is excluded. */
haul_status haul_exclude(haul_job *job, const char *rule);

/* Sets a function to be called with the progress. */
haul_status haul_on_progress(haul_job *job, haul_progress progress, void *data);

/* Runs the job, and returns when it is over. A job runs once. */
haul_status haul_run(haul_job *job);

/* Cancels a job: nothing more is begun, and files that are being copied are completed. A job that
 * is cancelled before it runs does nothing. May be called by a signal handler. */
void haul_cancel(haul_job *job);

/* Fills in how much was done so far. */
haul_status haul_counts_of(const haul_job *job, haul_counts *counts);

/* The number of problems, errors and warnings, of a job that was run or refused. */
size_t haul_problem_count(const haul_job *job);

/* Fills in a problem, counted from 0. */
haul_status haul_problem_at(const haul_job *job, size_t index, haul_problem *problem);

#ifdef __cplusplus
}
#endif
#endif
