/* Ntuples in C: write events as Arrow arrays, some of them by a fill as for another thread, and read them back.
 *
 *     cc 02_write_and_read.c $(pkg-config --cflags --libs femtobarn) -o write && ./write [FILE]
 */
#include <femtobarn.h>

#include <stdio.h>
#include <stdlib.h>

enum { N_EVENTS = 1000, MOST_MUONS = 2 };

static void check(bool is_done, fb_error *error) {
    if (!is_done) {
        fprintf(stderr, "%s: %s\n", fb_error_kind(error), fb_error_message(error));
        fb_error_free(error);
        exit(1);
    }
}

/* Events in memory, as Arrow has them: a number for each, and a list of floats, whose offsets are one more. */
typedef struct {
    uint32_t run[N_EVENTS];
    int64_t offsets[N_EVENTS + 1];
    float pt[MOST_MUONS * N_EVENTS];
} Events;

/* The memory is that of the caller, so only the marks are set that it is not used any more. */
static void release_array(struct ArrowArray *array) {
    for (int64_t i = 0; i < array->n_children; ++i) {
        if (array->children[i]->release) {
            array->children[i]->release(array->children[i]);
        }
    }
    array->release = NULL;
}
static void release_schema(struct ArrowSchema *schema) {
    for (int64_t i = 0; i < schema->n_children; ++i) {
        if (schema->children[i]->release) {
            schema->children[i]->release(schema->children[i]);
        }
    }
    schema->release = NULL;
}

/* Adds events to a fill if there is one, else to the writer; returns the number of the first one. */
static uint64_t extend(fb_writer *writer, fb_fill *fill, Events *events, uint32_t run) {
    int64_t n_muons = 0;
    for (int64_t i = 0; i < N_EVENTS; ++i) {
        events->run[i] = run;
        events->offsets[i] = n_muons;
        for (int64_t k = 0; k < i % (MOST_MUONS + 1); ++k) {
            events->pt[n_muons++] = 0.5f * (float)i;
        }
    }
    events->offsets[N_EVENTS] = n_muons;

    struct ArrowSchema item_schema = {.format = "f", .name = "item", .release = release_schema};
    struct ArrowSchema *item_schemas[] = {&item_schema};
    struct ArrowSchema run_schema = {.format = "I", .name = "run", .release = release_schema};
    struct ArrowSchema pt_schema = {
        .format = "+L", .name = "Muon_pt", .n_children = 1, .children = item_schemas, .release = release_schema};
    struct ArrowSchema *schemas[] = {&run_schema, &pt_schema};
    struct ArrowSchema schema = {
        .format = "+s", .name = "", .n_children = 2, .children = schemas, .release = release_schema};

    const void *no_buffers[] = {NULL};
    const void *run_buffers[] = {NULL, events->run};
    const void *pt_buffers[] = {NULL, events->offsets};
    const void *item_buffers[] = {NULL, events->pt};
    struct ArrowArray items = {.length = n_muons, .n_buffers = 2, .buffers = item_buffers, .release = release_array};
    struct ArrowArray *item_arrays[] = {&items};
    struct ArrowArray runs = {.length = N_EVENTS, .n_buffers = 2, .buffers = run_buffers, .release = release_array};
    struct ArrowArray pts = {.length = N_EVENTS,
                             .n_buffers = 2,
                             .buffers = pt_buffers,
                             .n_children = 1,
                             .children = item_arrays,
                             .release = release_array};
    struct ArrowArray *arrays[] = {&runs, &pts};
    struct ArrowArray array = {.length = N_EVENTS,
                               .n_buffers = 1,
                               .buffers = no_buffers,
                               .n_children = 2,
                               .children = arrays,
                               .release = release_array};
    fb_error *error = NULL;
    uint64_t first = 0;
    if (fill) {
        check(fb_fill_extend(fill, &schema, &array, &error), error);
    } else {
        check(fb_writer_extend(writer, &schema, &array, &first, &error), error);
    }
    schema.release(&schema);
    return first;
}

static void write_events(const char *path) {
    fb_error *error = NULL;
    const fb_text fields[] = {fb_text_of("run"), fb_text_of("Muon_pt")};
    const fb_text types[] = {fb_text_of("std::uint32_t"), fb_text_of("std::vector<float>")};
    fb_writer *writer = fb_writer_new(fb_text_of(path), fb_text_of("Events"), fields, types, 2,
                                      fb_text_of("{\"compression\": \"zstd:5\"}"), &error);
    check(writer != NULL, error);
    static Events events;
    printf("run 1 begins with entry %d, ", (int)extend(writer, NULL, &events, 1));

    /* another thread would fill and compress clusters of its own so */
    fb_fill *fill = fb_fill_new(writer, &error);
    check(fill != NULL, error);
    extend(writer, fill, &events, 2);
    fb_staged *staged = fb_fill_stage(fill, NULL, &error);
    check(staged != NULL, error);
    uint64_t first = 0, n = 0;
    check(fb_writer_commit(writer, staged, &first, &error), error);
    fb_fill_free(fill);
    check(fb_writer_finish(writer, &n, &error), error);
    printf("run 2 with entry %d of %d\n", (int)first, (int)n);
    fb_writer_free(writer);
}

static void read_events(const char *path) {
    fb_error *error = NULL;
    const fb_text file = fb_text_of(path), columns[] = {fb_text_of("run"), fb_text_of("Muon_pt")};
    fb_ntuple *ntuple = fb_ntuple_open(&file, 1, fb_text_of("Events"), fb_text_of(""), &error);
    check(ntuple != NULL, error);
    struct ArrowArrayStream stream;
    check(fb_ntuple_stream(ntuple, columns, 2, NULL, &stream, &error), error);
    double sums[3] = {0, 0, 0};
    for (;;) {
        struct ArrowArray batch;
        if (stream.get_next(&stream, &batch) != 0) {
            fprintf(stderr, "%s\n", stream.get_last_error(&stream));
            exit(1);
        }
        if (!batch.release) {
            break;
        }
        const struct ArrowArray *run = batch.children[0], *pt = batch.children[1], *item = pt->children[0];
        const uint32_t *runs = (const uint32_t *)run->buffers[1] + run->offset;
        const int64_t *offsets = (const int64_t *)pt->buffers[1] + pt->offset;
        const float *values = (const float *)item->buffers[1] + item->offset;
        for (int64_t i = 0; i < batch.length; ++i) {
            for (int64_t k = offsets[i]; k < offsets[i + 1]; ++k) {
                sums[runs[i] < 3 ? runs[i] : 0] += values[k];
            }
        }
        batch.release(&batch);
    }
    stream.release(&stream);
    printf("%d events, sums of pt: %.1f and %.1f\n", (int)fb_ntuple_num_entries(ntuple), sums[1], sums[2]);
    fb_ntuple_free(ntuple);
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "events.root";
    write_events(path);
    read_events(path);
    return 0;
}
