/* What a program in C reaches that calls libdaos directly: it writes and reads values, some akeys to an object, with some
 * operations in flight under an event queue. A library, so that it has the memory of the same process. */

#include "daos_abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *library;

#define FUNCTION(back, name, ...) static back (*name)(__VA_ARGS__)
FUNCTION(int, daos_init, void);
FUNCTION(int, daos_pool_connect2, const char *, const char *, unsigned, handle_t *, pool_info_t *, event_t *);
FUNCTION(int, daos_cont_create_with_label, handle_t, const char *, void *, uint8_t *, event_t *);
FUNCTION(int, daos_cont_open2, handle_t, const char *, unsigned, handle_t *, cont_info_t *, event_t *);
FUNCTION(int, daos_obj_generate_oid2, handle_t, oid_t *, int, uint32_t, uint16_t, uint32_t);
FUNCTION(int, daos_obj_open, handle_t, oid_t, unsigned, handle_t *, event_t *);
FUNCTION(int, daos_obj_close, handle_t, event_t *);
FUNCTION(int, daos_obj_punch, handle_t, handle_t, uint64_t, event_t *);
FUNCTION(int, daos_obj_fetch, handle_t, handle_t, uint64_t, iov_t *, unsigned, iod_t *, sgl_t *, void *, event_t *);
FUNCTION(int, daos_obj_update, handle_t, handle_t, uint64_t, iov_t *, unsigned, iod_t *, sgl_t *, event_t *);
FUNCTION(int, daos_pool_disconnect, handle_t, event_t *);
FUNCTION(int, daos_cont_close, handle_t, event_t *);
FUNCTION(int, daos_eq_create, handle_t *);
FUNCTION(int, daos_eq_destroy, handle_t, int);
FUNCTION(int, daos_eq_poll, handle_t, int, int64_t, unsigned, event_t **);
FUNCTION(int, daos_event_init, event_t *, handle_t, event_t *);
FUNCTION(int, daos_event_fini, event_t *);
#define LOAD(name) if (!(*(void **)&name = dlsym(library, #name))) return fprintf(stderr, "no %s\n", #name), 1

static void check(int rc, const char *what)
{
    if (rc < 0) fprintf(stderr, "%s: %d\n", what, rc), exit(1);
}

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

#define MOST_AKEYS 128

struct operation {
    event_t ev;
    handle_t object;
    uint64_t dkey, names[MOST_AKEYS];
    iov_t dkey_iov, iovs[MOST_AKEYS];
    iod_t iods[MOST_AKEYS];
    sgl_t sgls[MOST_AKEYS];
};

static handle_t container, queue;
static int n_values, n_akeys;
static size_t n_bytes;
static uint64_t first;
static char **values;

static void open_object(struct operation *o, int at)
{
    oid_t id = {first + at / n_akeys, 1};
    check(daos_obj_generate_oid2(container, &id, MULTI_UINT64, 0, 0x11, 0), "object id");
    check(daos_obj_open(container, id, 4, &o->object, NULL), "open object");
}

static void begin(struct operation *o, int at, bool is_write)
{
    open_object(o, at);
    o->dkey = 1;
    o->dkey_iov = (iov_t){&o->dkey, 8, 8};
    for (int i = 0; i < n_akeys; i++) {
        /* a reader gives each value away, so each has memory of its own */
        if (!is_write) values[at + i] = malloc(n_bytes);
        o->names[i] = i;
        o->iovs[i] = (iov_t){values[at + i], n_bytes, n_bytes};
        o->sgls[i] = (sgl_t){1, 0, &o->iovs[i]};
        o->iods[i] = (iod_t){{&o->names[i], 8, 8}, IOD_SINGLE, is_write ? n_bytes : 0, 0, 1, NULL};
    }
    check(daos_event_init(&o->ev, queue, NULL), "event");
    handle_t none = {0};
    if (is_write) check(daos_obj_update(o->object, none, 0, &o->dkey_iov, n_akeys, o->iods, o->sgls, &o->ev), "update");
    else check(daos_obj_fetch(o->object, none, 0, &o->dkey_iov, n_akeys, o->iods, o->sgls, NULL, &o->ev), "fetch");
}

/* Gives the seconds, and those of all processors that this process has used. */
static void run(int in_flight, bool is_write, double took[2])
{
    struct operation *operations = calloc(in_flight, sizeof *operations), **idle = calloc(in_flight, sizeof *idle);
    int n_idle = in_flight, next = 0, done = 0;
    for (int i = 0; i < in_flight; i++) idle[i] = &operations[i];
    took[0] = -now(CLOCK_MONOTONIC), took[1] = -now(CLOCK_PROCESS_CPUTIME_ID);
    while (done < n_values) {
        while (n_idle && next < n_values) {
            begin(idle[--n_idle], next, is_write);
            next += n_akeys;
        }
        event_t *events[64];
        int n = daos_eq_poll(queue, 1, -1, 64, events);
        check(n, "poll");
        for (int i = 0; i < n; i++) {
            struct operation *o = (struct operation *)events[i];
            check(o->ev.error, "operation");
            for (int k = 0; k < n_akeys; k++)
                if (o->iods[k].size != n_bytes) check(-1, "size");
            daos_event_fini(&o->ev);
            daos_obj_close(o->object, NULL);
            idle[n_idle++] = o;
            done += n_akeys;
        }
    }
    took[0] += now(CLOCK_MONOTONIC), took[1] += now(CLOCK_PROCESS_CPUTIME_ID);
    free(operations), free(idle);
}

/* Gives the best rates of writing and reading, in MB/s, and then those by the time of processors. */
int bare_loop(const char *path, const char *pool_name, const char *container_name, int values_, size_t bytes, int akeys,
              int in_flight, int rounds, uint64_t first_object, double *best)
{
    library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
    LOAD(daos_init); LOAD(daos_pool_connect2); LOAD(daos_pool_disconnect); LOAD(daos_cont_create_with_label);
    LOAD(daos_cont_open2); LOAD(daos_cont_close); LOAD(daos_obj_generate_oid2); LOAD(daos_obj_open);
    LOAD(daos_obj_close); LOAD(daos_obj_punch); LOAD(daos_obj_fetch); LOAD(daos_obj_update); LOAD(daos_eq_create);
    LOAD(daos_eq_poll); LOAD(daos_eq_destroy); LOAD(daos_event_init); LOAD(daos_event_fini);
    n_values = values_, n_bytes = bytes, n_akeys = akeys, first = first_object;
    if (n_akeys < 1 || n_akeys > MOST_AKEYS || n_values % n_akeys) return 2;
    handle_t pool;
    check(daos_init(), "init");
    check(daos_pool_connect2(pool_name, NULL, 2, &pool, NULL, NULL), "pool");
    daos_cont_create_with_label(pool, container_name, NULL, NULL, NULL);
    check(daos_cont_open2(pool, container_name, 2, &container, NULL, NULL), "container");
    check(daos_eq_create(&queue), "queue");
    values = calloc(n_values, sizeof *values);
    double megabytes = 1e-6 * n_values * n_bytes;
    memset(best, 0, 4 * sizeof *best);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < n_values; i++) memset(values[i] = malloc(n_bytes), i, n_bytes);
        for (int is_read = 0; is_read < 2; is_read++) {
            double took[2];
            run(in_flight, !is_read, took);
            for (int i = 0; i < n_values; i++) free(values[i]);
            for (int i = 0; i < 2; i++) {
                double rate = megabytes / took[i], *known = &best[2 * i + is_read];
                *known = rate > *known ? rate : *known;
            }
        }
    }
    for (int i = 0; i < n_values; i += n_akeys) {
        struct operation o;
        handle_t none = {0};
        open_object(&o, i);
        check(daos_obj_punch(o.object, none, 0, NULL), "punch");
        daos_obj_close(o.object, NULL);
    }
    free(values);
    daos_eq_destroy(queue, 0);
    daos_cont_close(container, NULL);
    daos_pool_disconnect(pool, NULL);
    return 0;
}
