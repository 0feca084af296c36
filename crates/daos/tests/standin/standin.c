/* A stand-in for libdaos.so, for tests: the same functions, structures and codes, with values in memory, or in the directory
 * DAOS_STANDIN_DIR, which processes share. Operations with an event are done by a thread, some time later. Faults are set by
 * daos_standin_set, or by DAOS_STANDIN_FAULTS="name=value,name=value". What it does in the odd cases is what DAOS 2.8 does:
 * docs/specs/ntuple-daos.md. */

#define _GNU_SOURCE
#include "daos_abi.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- faults and counters ---- */

static struct number { const char *name; long value; } numbers[] = {
    {"event_error", 0},       /* the error of events of data operations, while nothing else fails */
    {"event_error_skip", 0},  /* after so many operations */
    {"event_error_count", 0}, /* for so many operations */
    {"start_error", 0},       /* what data operations return at once */
    {"delay_us", 0},          /* the time that an operation takes */
    {"hang", 0},              /* whether no operation ends */
    {"pool_bytes", 0},        /* the size of the pool; 0: no limit */
    {"gone", 0},              /* whether pools and containers are gone */
    {"quiet", 0},             /* whether a short buffer is no error, as the size tells it, too */
    {"lost_bytes", 0},        /* fetches return so many bytes too few, without an error */
    {"no_queue", 0},          /* whether no further event queue can be created */
    {"no_class", 0},          /* whether classes with all targets are not allowed */
    {"list_keys", 0},         /* the most keys of an answer of a list; 0: as many as fit */
    {"n_fetches", 0}, {"n_updates", 0}, {"n_values", 0}, {"n_pools", 0}, {"n_containers", 0}, {"n_objects", 0},
    {"n_queues", 0}, {"n_connects", 0}, {"n_in_flight", 0}, {"most_in_flight", 0}, {"bytes", 0},
};

static long *number(const char *name)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(numbers[i].name, name))
            return &numbers[i].value;
    fprintf(stderr, "daos stand-in: no number %s\n", name);
    abort();
}
#define N(name) (*number(name))

/* ---- state ---- */

enum status { READY, RUNNING, COMPLETED };

struct private {
    struct queue *queue;
    event_t *parent, *next;
    enum status status;
    int children, ended;
    bool is_barrier;
};
_Static_assert(sizeof(struct private) <= sizeof(((event_t *)0)->space), "fits into an event");
static struct private *of(event_t *ev) { return (struct private *)ev->space; }

struct queue { bool is_used; int running; event_t *first; };

enum kind { CONNECT, DISCONNECT, CREATE, OPEN, CLOSE, FETCH, UPDATE, PUNCH, PUNCH_AKEYS, LIST };

struct object { struct container *cont; oid_t oid; };
struct pool { char name[128]; };
struct container { struct pool *pool; char name[128]; };

struct task {
    enum kind kind;
    event_t *ev;
    struct timespec due;
    struct task *next;
    void *what;     /* pool, container or object */
    const char *name;
    handle_t *handle;
    void *info;
    uint64_t flags;
    iov_t *dkey, *akeys;
    unsigned nr;
    iod_t *iods;
    sgl_t *sgls;
    uint32_t *n;
    key_desc_t *kds;
    anchor_t *anchor;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended, added;
static struct task *first_task, **last_task = &first_task;
static struct queue queues[64];
static pid_t owner; /* the process that has the thread */

/* ---- storage ---- */

struct value {
    struct value *next;
    char *cont;
    oid_t oid;
    uint64_t dkey, akey;
    size_t size;
    char *data;
};
static struct value *table[4096];
static char *containers[256];

static const char *folder(void)
{
    const char *dir = getenv("DAOS_STANDIN_DIR");
    return dir && *dir ? dir : NULL;
}

static void path_of(char *path, struct container *c, oid_t oid, uint64_t dkey, uint64_t akey, int depth)
{
    int n = snprintf(path, 4096, "%s/%s/%s", folder(), c->pool->name, c->name);
    if (depth > 0) n += sprintf(path + n, "/%016lx.%016lx", oid.hi, oid.lo);
    if (depth > 1) n += sprintf(path + n, "/%016lx", dkey);
    if (depth > 2) sprintf(path + n, "/%016lx", akey);
}

static void full_name(char *name, struct container *c) { snprintf(name, 300, "%s/%s", c->pool->name, c->name); }

static bool container_exists(struct container *c, bool create)
{
    if (folder()) {
        char path[4096];
        struct stat st;
        path_of(path, c, (oid_t){0}, 0, 0, 0);
        if (!stat(path, &st)) return true;
        if (!create) return false;
        snprintf(path, sizeof path, "%s/%s", folder(), c->pool->name);
        mkdir(path, 0777);
        path_of(path, c, (oid_t){0}, 0, 0, 0);
        mkdir(path, 0777);
        return false;
    }
    char name[300];
    full_name(name, c);
    for (int i = 0; i < 256; i++) {
        if (!containers[i]) {
            if (create) containers[i] = strdup(name);
            return false;
        }
        if (!strcmp(containers[i], name)) return true;
    }
    return false;
}

static struct value **slot(const char *cont, oid_t oid, uint64_t dkey, uint64_t akey)
{
    uint64_t h = (oid.lo * 31 + oid.hi) * 31 + dkey * 7 + akey;
    h = (h ^ h >> 29) * 0x9e3779b97f4a7c15;
    struct value **at = &table[h >> 52];
    while (*at && !((*at)->akey == akey && (*at)->dkey == dkey && (*at)->oid.lo == oid.lo &&
                    (*at)->oid.hi == oid.hi && !strcmp((*at)->cont, cont)))
        at = &(*at)->next;
    return at;
}

/* A value, for the time until the lock is released; *owned must be freed. */
static bool look_up(struct object *o, uint64_t dkey, uint64_t akey, char **data, size_t *size, char **owned)
{
    *owned = NULL;
    if (!folder()) {
        char name[300];
        full_name(name, o->cont);
        struct value *v = *slot(name, o->oid, dkey, akey);
        if (v) *data = v->data, *size = v->size;
        return v;
    }
    char path[4096];
    path_of(path, o->cont, o->oid, dkey, akey, 3);
    int fd = open(path, O_RDONLY);
    if (fd < 0) return false;
    struct stat st;
    fstat(fd, &st);
    *data = *owned = malloc(st.st_size + 1);
    *size = read(fd, *data, st.st_size);
    close(fd);
    return true;
}

static void remove_value(struct object *o, uint64_t dkey, uint64_t akey)
{
    if (folder()) {
        char path[4096];
        path_of(path, o->cont, o->oid, dkey, akey, 3);
        unlink(path);
        path_of(path, o->cont, o->oid, dkey, akey, 2);
        if (!rmdir(path)) {
            path_of(path, o->cont, o->oid, dkey, akey, 1);
            rmdir(path);
        }
        return;
    }
    char name[300];
    full_name(name, o->cont);
    struct value **at = slot(name, o->oid, dkey, akey), *v = *at;
    if (!v) return;
    *at = v->next;
    N("bytes") -= v->size;
    N("n_values")--;
    free(v->data), free(v->cont), free(v);
}

static void store(struct object *o, uint64_t dkey, uint64_t akey, sgl_t *sgl, size_t size)
{
    char *data = malloc(size);
    size_t n = 0;
    for (unsigned i = 0; i < sgl->nr && n < size; i++) {
        size_t part = sgl->iovs[i].len < size - n ? sgl->iovs[i].len : size - n;
        memcpy(data + n, sgl->iovs[i].buf, part);
        n += part;
    }
    remove_value(o, dkey, akey);
    if (folder()) {
        char path[4096], temp[4200];
        for (int depth = 1; depth < 3; depth++) {
            path_of(path, o->cont, o->oid, dkey, akey, depth);
            mkdir(path, 0777);
        }
        path_of(path, o->cont, o->oid, dkey, akey, 3);
        snprintf(temp, sizeof temp, "%s.new", path);
        int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (write(fd, data, n) != (ssize_t)n) abort();
        close(fd);
        rename(temp, path);
        free(data);
        return;
    }
    char name[300];
    full_name(name, o->cont);
    struct value **at = slot(name, o->oid, dkey, akey), *v = calloc(1, sizeof *v);
    *v = (struct value){NULL, strdup(name), o->oid, dkey, akey, n, data};
    *at = v;
    N("bytes") += n;
    N("n_values")++;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* All keys of an object, or of a dkey, sorted, without repetition. */
static size_t keys_of(struct object *o, const uint64_t *dkey, uint64_t **keys)
{
    size_t n = 0, room = 0;
    *keys = NULL;
#define ADD(key) do { if (n == room) *keys = realloc(*keys, 8 * (room = 2 * room + 64)); (*keys)[n++] = (key); } while (0)
    if (folder()) {
        char path[4096];
        path_of(path, o->cont, o->oid, dkey ? *dkey : 0, 0, dkey ? 2 : 1);
        DIR *dir = opendir(path);
        for (struct dirent *e; dir && (e = readdir(dir));)
            if (strlen(e->d_name) == 16) ADD(strtoull(e->d_name, NULL, 16));
        if (dir) closedir(dir);
    } else {
        char name[300];
        full_name(name, o->cont);
        for (int i = 0; i < 4096; i++)
            for (struct value *v = table[i]; v; v = v->next)
                if (v->oid.lo == o->oid.lo && v->oid.hi == o->oid.hi && !strcmp(v->cont, name) &&
                    (!dkey || v->dkey == *dkey))
                    ADD(dkey ? v->akey : v->dkey);
    }
    size_t kept = 0;
    if (n) qsort(*keys, n, 8, compare);
    for (size_t i = 0; i < n; i++)
        if (!kept || (*keys)[kept - 1] != (*keys)[i]) (*keys)[kept++] = (*keys)[i];
    return kept;
}

/* ---- operations ---- */

static bool is_number(const iov_t *key) { return key && key->buf && key->len == 8; }
static uint64_t number_of(const iov_t *key)
{
    uint64_t value;
    memcpy(&value, key->buf, 8);
    return value;
}

static int fetch(struct task *t)
{
    struct object *o = t->what;
    int rc = 0;
    N("n_fetches")++;
    for (unsigned i = 0; i < t->nr; i++) {
        char *data, *owned;
        size_t size, room = 0;
        if (!is_number(&t->iods[i].name) || t->iods[i].type != IOD_SINGLE || t->iods[i].nr != 1) return -INVAL;
        bool found = look_up(o, number_of(t->dkey), number_of(&t->iods[i].name), &data, &size, &owned);
        if (!found) {
            if (t->flags & (COND_DKEY_FETCH | COND_AKEY_FETCH)) return -NONEXIST;
            t->iods[i].size = 0;
            if (t->sgls) t->sgls[i].nr_out = 0;
            continue;
        }
        if (t->sgls) {
            for (unsigned j = 0; j < t->sgls[i].nr; j++) room += t->sgls[i].iovs[j].buf_len;
            if (size > room) {
                rc = N("quiet") ? rc : -REC2BIG;
            } else {
                size_t done = 0;
                size -= N("lost_bytes") < (long)size ? N("lost_bytes") : 0;
                for (unsigned j = 0; j < t->sgls[i].nr && done < size; j++) {
                    iov_t *iov = &t->sgls[i].iovs[j];
                    iov->len = iov->buf_len < size - done ? iov->buf_len : size - done;
                    memcpy(iov->buf, data + done, iov->len);
                    done += iov->len;
                    t->sgls[i].nr_out = j + 1;
                }
            }
        }
        t->iods[i].size = size;
        free(owned);
    }
    return rc;
}

static int update(struct task *t)
{
    struct object *o = t->what;
    uint64_t dkey = number_of(t->dkey);
    long more = 0;
    N("n_updates")++;
    for (unsigned i = 0; i < t->nr; i++) {
        char *data, *owned;
        size_t size, room = 0;
        if (!is_number(&t->iods[i].name) || t->iods[i].type != IOD_SINGLE || t->iods[i].nr != 1) return -INVAL;
        for (unsigned j = 0; j < t->sgls[i].nr; j++) room += t->sgls[i].iovs[j].len;
        if (t->iods[i].size > room) return -REC2BIG;
        bool found = look_up(o, dkey, number_of(&t->iods[i].name), &data, &size, &owned);
        free(owned);
        if (found && t->flags & COND_AKEY_INSERT) return -EXIST;
        more += t->iods[i].size;
    }
    if (N("pool_bytes") && N("bytes") + more > N("pool_bytes")) return -NOSPACE;
    for (unsigned i = 0; i < t->nr; i++) {
        uint64_t akey = number_of(&t->iods[i].name);
        if (t->iods[i].size == 0) remove_value(o, dkey, akey);
        else store(o, dkey, akey, &t->sgls[i], t->iods[i].size);
    }
    return 0;
}

static void punch_all(struct object *o)
{
    uint64_t *dkeys, *akeys;
    size_t n = keys_of(o, NULL, &dkeys);
    for (size_t i = 0; i < n; i++) {
        size_t m = keys_of(o, &dkeys[i], &akeys);
        for (size_t j = 0; j < m; j++) remove_value(o, dkeys[i], akeys[j]);
        free(akeys);
    }
    free(dkeys);
}

static int list(struct task *t)
{
    uint64_t dkey = t->dkey ? number_of(t->dkey) : 0, *keys, from;
    size_t n = keys_of(t->what, t->dkey ? &dkey : NULL, &keys), given = 0;
    size_t most = t->sgls->iovs[0].buf_len / 8 < *t->n ? t->sgls->iovs[0].buf_len / 8 : *t->n;
    if (N("list_keys") && (size_t)N("list_keys") < most) most = N("list_keys");
    memcpy(&from, t->anchor->buf, 8);
    for (; from < n && given < most; from++, given++) {
        memcpy((char *)t->sgls->iovs[0].buf + 8 * given, &keys[from], 8);
        t->kds[given] = (key_desc_t){8, 0};
    }
    *t->n = given;
    memcpy(t->anchor->buf, &from, 8);
    t->anchor->type = from < n ? 1 : ANCHOR_EOF;
    free(keys);
    return 0;
}

static void uuid_of(uint8_t *uuid, const char *name)
{
    for (int i = 0; i < 16; i++, name += *name ? 1 : 0) uuid[i] = (uint8_t)(*name * 13 + i);
}

static int do_task(struct task *t)
{
    bool is_data = t->kind >= FETCH;
    if (N("gone") && t->kind != CLOSE && t->kind != DISCONNECT) return is_data ? -NO_HDL : -NONEXIST;
    if (is_data && N("event_error_count") > 0) {
        if (N("event_error_skip") > 0) N("event_error_skip")--;
        else {
            N("event_error_count")--;
            return N("event_error");
        }
    }
    if (t->dkey && !is_number(t->dkey)) return -INVAL;
    struct pool *pool;
    struct container *c, named;
    switch (t->kind) {
    case CONNECT:
        if (!strncmp(t->name, "no-", 3)) return -NONEXIST;
        if (!strncmp(t->name, "closed-", 7)) return -NO_PERM;
        if (!strncmp(t->name, "read-", 5) && t->flags != READ_ONLY) return -NO_PERM;
        pool = calloc(1, sizeof *pool);
        snprintf(pool->name, sizeof pool->name, "%s", t->name);
        t->handle->cookie = (uint64_t)pool;
        if (t->info) {
            uuid_of(((pool_info_t *)t->info)->uuid, t->name);
            ((pool_info_t *)t->info)->n_targets = 8;
        }
        N("n_pools")++, N("n_connects")++;
        return 0;
    case DISCONNECT:
        N("n_pools")--;
        free(t->what);
        return 0;
    case CREATE:
    case OPEN:
        named.pool = t->what;
        snprintf(named.name, sizeof named.name, "%s", t->name);
        if (t->kind == CREATE) return container_exists(&named, true) ? -EXIST : 0;
        if (!container_exists(&named, false)) return -NONEXIST;
        if (!strncmp(named.pool->name, "read-", 5) && t->flags != READ_ONLY) return -NO_PERM;
        c = malloc(sizeof *c);
        *c = named;
        t->handle->cookie = (uint64_t)c;
        if (t->info) uuid_of(((cont_info_t *)t->info)->uuid, t->name);
        N("n_containers")++;
        return 0;
    case CLOSE:
        N("n_containers")--;
        free(t->what);
        return 0;
    default: break;
    }
    if (t->kind != FETCH && t->kind != LIST && !strncmp(((struct object *)t->what)->cont->pool->name, "read-", 5))
        return -NO_PERM;
    /* processes that share a directory exclude each other */
    int fd = -1, rc = 0;
    if (folder()) {
        char path[4096];
        path_of(path, ((struct object *)t->what)->cont, (oid_t){0}, 0, 0, 0);
        fd = open(path, O_RDONLY);
        flock(fd, LOCK_EX);
    }
    switch (t->kind) {
    case FETCH: rc = fetch(t); break;
    case UPDATE: rc = update(t); break;
    case PUNCH: punch_all(t->what); break;
    case PUNCH_AKEYS:
        for (unsigned i = 0; i < t->nr; i++) remove_value(t->what, number_of(t->dkey), number_of(&t->akeys[i]));
        break;
    case LIST: rc = list(t); break;
    default: rc = -INVAL;
    }
    if (fd >= 0) close(fd);
    return rc;
}

/* ---- events ---- */

static void complete(event_t *ev, int rc)
{
    struct private *p = of(ev);
    ev->error = rc;
    p->status = COMPLETED;
    if (p->parent) {
        struct private *parent = of(p->parent);
        parent->ended++;
        if (!p->parent->error) p->parent->error = rc;
        if (!parent->is_barrier || parent->ended < parent->children) return;
        ev = p->parent, p = parent;
        p->status = COMPLETED;
    }
    p->queue->running--;
    p->next = NULL;
    event_t **at = &p->queue->first;
    while (*at) at = &of(*at)->next;
    *at = ev;
    pthread_cond_broadcast(&ended);
}

static bool is_due(const struct timespec *due)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > due->tv_sec || (now.tv_sec == due->tv_sec && now.tv_nsec >= due->tv_nsec);
}

static struct timespec after(int64_t us)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t ns = t.tv_nsec + us % 1000000 * 1000;
    t.tv_sec += us / 1000000 + ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    return t;
}

static void *work(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        struct task *t = first_task;
        if (!t || N("hang")) {
            struct timespec soon = after(10000);
            pthread_cond_timedwait(&added, &lock, &soon);
        } else if (!is_due(&t->due)) {
            struct timespec due = t->due;
            pthread_cond_timedwait(&added, &lock, &due);
        } else {
            first_task = t->next;
            if (!first_task) last_task = &first_task;
            int rc = do_task(t);
            N("n_in_flight")--;
            complete(t->ev, rc);
            free(t);
        }
    }
    return NULL;
}

static int start(struct task task)
{
    bool is_data = task.kind >= FETCH;
    pthread_mutex_lock(&lock);
    int rc = is_data ? (int)N("start_error") : 0;
    if (rc == 0 && !task.ev) {
        rc = do_task(&task);
    } else if (rc == 0) {
        struct private *p = of(task.ev);
        struct task *t = malloc(sizeof *t);
        *t = task;
        t->next = NULL;
        t->due = after(N("delay_us"));
        p->status = RUNNING;
        if (!p->parent) p->queue->running++;
        if (++N("n_in_flight") > N("most_in_flight")) N("most_in_flight") = N("n_in_flight");
        *last_task = t;
        last_task = &t->next;
        pthread_cond_signal(&added);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

int daos_eq_create(handle_t *eq)
{
    pthread_mutex_lock(&lock);
    int rc = N("no_queue") ? -NOMEM : -BUSY;
    for (int i = 0; rc == -BUSY && i < 64; i++)
        if (!queues[i].is_used) {
            queues[i] = (struct queue){.is_used = true};
            eq->cookie = i + 1;
            N("n_queues")++;
            rc = 0;
        }
    pthread_mutex_unlock(&lock);
    return rc;
}

static struct queue *queue_of(handle_t eq)
{
    return eq.cookie >= 1 && eq.cookie <= 64 && queues[eq.cookie - 1].is_used ? &queues[eq.cookie - 1] : NULL;
}

int daos_eq_destroy(handle_t eq, int flags)
{
    pthread_mutex_lock(&lock);
    struct queue *q = queue_of(eq);
    int rc = !q ? -NONEXIST : (q->running || q->first) && !flags ? -BUSY : 0;
    if (rc == 0) q->is_used = false, N("n_queues")--;
    pthread_mutex_unlock(&lock);
    return rc;
}

int daos_eq_poll(handle_t eq, int wait_running, int64_t timeout, unsigned n, event_t **events)
{
    pthread_mutex_lock(&lock);
    struct queue *q = queue_of(eq);
    struct timespec until = after(timeout < 0 ? 1000000000000 : timeout);
    int found = 0;
    if (!q || !n || !events) found = q ? -INVAL : -NONEXIST;
    while (found == 0) {
        while (q->first && found < (int)n) {
            event_t *ev = q->first;
            q->first = of(ev)->next;
            of(ev)->status = READY;
            events[found++] = ev;
        }
        if (found || (wait_running && !q->running)) break;
        if (pthread_cond_timedwait(&ended, &lock, &until) == ETIMEDOUT && !q->first) break;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

int daos_event_init(event_t *ev, handle_t eq, event_t *parent)
{
    pthread_mutex_lock(&lock);
    memset(ev, 0, sizeof *ev);
    struct private *p = of(ev);
    int rc = 0;
    if (parent) {
        if (of(parent)->status != READY) rc = -INVAL;
        p->queue = of(parent)->queue;
        p->parent = parent;
        of(parent)->children++;
    } else if (!(p->queue = queue_of(eq))) {
        rc = -NONEXIST;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

int daos_event_fini(event_t *ev)
{
    pthread_mutex_lock(&lock);
    int rc = of(ev)->status == RUNNING ? -BUSY : 0;
    pthread_mutex_unlock(&lock);
    return rc;
}

int daos_event_parent_barrier(event_t *ev)
{
    pthread_mutex_lock(&lock);
    struct private *p = of(ev);
    int rc = p->children ? 0 : -INVAL;
    if (rc == 0) {
        p->is_barrier = true;
        p->status = RUNNING;
        p->queue->running++;
        if (p->ended == p->children) {
            int error = ev->error;
            complete(ev, error);
        }
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

/* Returns 0 even if the operation failed: the error stands in the event. */
int daos_event_test(event_t *ev, int64_t timeout, bool *flag)
{
    pthread_mutex_lock(&lock);
    struct private *p = of(ev);
    struct timespec until = after(timeout < 0 ? 1000000000000 : timeout);
    while (p->status == RUNNING)
        if (pthread_cond_timedwait(&ended, &lock, &until) == ETIMEDOUT) break;
    *flag = p->status != RUNNING;
    if (p->status == COMPLETED) {
        for (event_t **at = &p->queue->first; *at; at = &of(*at)->next)
            if (*at == ev) {
                *at = p->next;
                break;
            }
        p->status = READY;
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

/* ---- the library ---- */

static int begin(void)
{
    pthread_condattr_t monotonic;
    pthread_t thread;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&ended, &monotonic);
    pthread_cond_init(&added, &monotonic);
    owner = getpid();
    if (pthread_create(&thread, NULL, work, NULL)) return -NOMEM;
    pthread_detach(thread);
    return 0;
}

int daos_init(void)
{
    if (owner) return 0; /* also in a forked process, where nothing works then */
    const char *faults = getenv("DAOS_STANDIN_FAULTS");
    char *all = strdup(faults ? faults : ""), *rest = all;
    for (char *one; (one = strsep(&rest, ","));) {
        char *value = strchr(one, '=');
        if (value) *value = 0, N(one) = atol(value + 1);
    }
    free(all);
    return begin();
}

int daos_fini(void) { return 0; }

int daos_reinit(void)
{
    if (!owner) return -UNINIT;
    pthread_mutex_init(&lock, NULL);
    first_task = NULL, last_task = &first_task;
    memset(queues, 0, sizeof queues);
    N("n_in_flight") = N("n_pools") = N("n_containers") = N("n_objects") = N("n_queues") = N("n_connects") = 0;
    return begin();
}

const char *d_errstr(int rc)
{
    switch (rc) {
    case 0: return "DER_SUCCESS";
    case -NO_PERM: return "DER_NO_PERM";
    case -NO_HDL: return "DER_NO_HDL";
    case -INVAL: return "DER_INVAL";
    case -EXIST: return "DER_EXIST";
    case -NONEXIST: return "DER_NONEXIST";
    case -NOSPACE: return "DER_NOSPACE";
    case -NOMEM: return "DER_NOMEM";
    case -BUSY: return "DER_BUSY";
    case -REC2BIG: return "DER_REC2BIG";
    default: return "DER_UNKNOWN";
    }
}

int daos_pool_connect2(const char *name, const char *sys, unsigned flags, handle_t *poh, pool_info_t *info, event_t *ev)
{
    (void)sys;
    return start((struct task){.kind = CONNECT, .ev = ev, .name = name, .flags = flags, .handle = poh, .info = info});
}

int daos_pool_disconnect(handle_t poh, event_t *ev)
{
    return start((struct task){.kind = DISCONNECT, .ev = ev, .what = (void *)poh.cookie});
}

int daos_cont_create_with_label(handle_t poh, const char *label, void *prop, uint8_t *uuid, event_t *ev)
{
    (void)prop, (void)uuid;
    return start((struct task){.kind = CREATE, .ev = ev, .what = (void *)poh.cookie, .name = label});
}

int daos_cont_open2(handle_t poh, const char *name, unsigned flags, handle_t *coh, cont_info_t *info, event_t *ev)
{
    return start((struct task){.kind = OPEN, .ev = ev, .what = (void *)poh.cookie, .name = name, .flags = flags,
                               .handle = coh, .info = info});
}

int daos_cont_close(handle_t coh, event_t *ev)
{
    return start((struct task){.kind = CLOSE, .ev = ev, .what = (void *)coh.cookie});
}

/* ---- object classes: 8 targets, no redundancy ---- */

static int targets(void)
{
    const char *n = getenv("DAOS_STANDIN_TARGETS");
    return n && *n ? atoi(n) : 8;
}

static const struct { const char *name; uint32_t id; } classes[] = {
    {"S1", 1 << 24 | 1}, {"S2", 1 << 24 | 2}, {"S4", 1 << 24 | 4}, {"S8", 1 << 24 | 8}, {"S16", 1 << 24 | 16},
    {"SX", 1 << 24 | 0xffff}, {"RP_2G1", 8 << 24 | 1},
};

int daos_oclass_name2id(const char *name)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (!strcmp(classes[i].name, name)) return classes[i].id;
    return 0;
}

int daos_oclass_id2name(uint32_t id, char *name)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (classes[i].id == id) {
            strcpy(name, classes[i].name);
            return 0;
        }
    if (id >> 24 == 1) {
        sprintf(name, "S%u", id & 0xffff);
        return 0;
    }
    strcpy(name, "UNKNOWN");
    return -1;
}

int daos_obj_generate_oid2(handle_t coh, oid_t *oid, int type, uint32_t class, uint16_t hints, uint32_t args)
{
    (void)hints, (void)args;
    if (!coh.cookie) return -NO_HDL;
    uint64_t redundancy = 1, groups = 1;
    if (class) {
        redundancy = class >> 24, groups = class & 0xffff;
        if (groups == 0xffff) {
            if (N("no_class")) return -INVAL;
            groups = targets();
        }
        if (redundancy != 1 || groups > (uint64_t)targets()) return -INVAL;
    }
    oid->hi = (oid->hi & 0xffffffff) | (uint64_t)type << 56 | redundancy << 48 | groups << 32;
    return 0;
}

int daos_obj_open(handle_t coh, oid_t oid, unsigned mode, handle_t *oh, event_t *ev)
{
    (void)mode, (void)ev;
    if (!coh.cookie) return -NO_HDL;
    if ((oid.hi >> 56) != MULTI_UINT64 || !(oid.hi >> 48 & 0xff) || !(oid.hi >> 32 & 0xffff)) return -INVAL;
    struct object *o = malloc(sizeof *o);
    *o = (struct object){(struct container *)coh.cookie, oid};
    oh->cookie = (uint64_t)o;
    __atomic_add_fetch(number("n_objects"), 1, __ATOMIC_SEQ_CST);
    return 0;
}

int daos_obj_close(handle_t oh, event_t *ev)
{
    (void)ev;
    free((void *)oh.cookie);
    __atomic_sub_fetch(number("n_objects"), 1, __ATOMIC_SEQ_CST);
    return 0;
}

int daos_obj_fetch(handle_t oh, handle_t th, uint64_t flags, iov_t *dkey, unsigned nr, iod_t *iods, sgl_t *sgls,
                   void *maps, event_t *ev)
{
    (void)th, (void)maps;
    return start((struct task){.kind = FETCH, .ev = ev, .what = (void *)oh.cookie, .flags = flags, .dkey = dkey,
                               .nr = nr, .iods = iods, .sgls = sgls});
}

int daos_obj_update(handle_t oh, handle_t th, uint64_t flags, iov_t *dkey, unsigned nr, iod_t *iods, sgl_t *sgls,
                    event_t *ev)
{
    (void)th;
    return start((struct task){.kind = UPDATE, .ev = ev, .what = (void *)oh.cookie, .flags = flags, .dkey = dkey,
                               .nr = nr, .iods = iods, .sgls = sgls});
}

int daos_obj_punch(handle_t oh, handle_t th, uint64_t flags, event_t *ev)
{
    (void)th;
    return start((struct task){.kind = PUNCH, .ev = ev, .what = (void *)oh.cookie, .flags = flags});
}

int daos_obj_punch_akeys(handle_t oh, handle_t th, uint64_t flags, iov_t *dkey, unsigned nr, iov_t *akeys, event_t *ev)
{
    (void)th;
    return start((struct task){.kind = PUNCH_AKEYS, .ev = ev, .what = (void *)oh.cookie, .flags = flags, .dkey = dkey,
                               .nr = nr, .akeys = akeys});
}

int daos_obj_list_dkey(handle_t oh, handle_t th, uint32_t *n, key_desc_t *kds, sgl_t *sgl, anchor_t *anchor, event_t *ev)
{
    (void)th;
    return start((struct task){.kind = LIST, .ev = ev, .what = (void *)oh.cookie, .n = n, .kds = kds, .sgls = sgl,
                               .anchor = anchor});
}

int daos_obj_list_akey(handle_t oh, handle_t th, iov_t *dkey, uint32_t *n, key_desc_t *kds, sgl_t *sgl, anchor_t *anchor,
                       event_t *ev)
{
    (void)th;
    return start((struct task){.kind = LIST, .ev = ev, .what = (void *)oh.cookie, .dkey = dkey, .n = n, .kds = kds,
                               .sgls = sgl, .anchor = anchor});
}

/* ---- for tests ---- */

void daos_standin_set(const char *name, long value)
{
    pthread_mutex_lock(&lock);
    N(name) = value;
    pthread_mutex_unlock(&lock);
}

long daos_standin_get(const char *name)
{
    pthread_mutex_lock(&lock);
    long value = N(name);
    pthread_mutex_unlock(&lock);
    return value;
}
