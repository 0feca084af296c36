/* The event store in C: create a dataset, store one product per event, and read all of them.
 *
 *     cc 01_store_and_load.c $(pkg-config --cflags --libs femtobarn) -o store && ./store [URL]
 */
#include <femtobarn.h>

#include <stdio.h>
#include <stdlib.h>

static void check(bool is_done, fb_error *error) {
    if (!is_done) {
        fprintf(stderr, "%s: %s\n", fb_error_kind(error), fb_error_message(error));
        fb_error_free(error);
        exit(1);
    }
}

static void write_events(const fb_store *store, const fb_descriptor *subrun) {
    fb_error *error = NULL;
    fb_write_batch *batch = fb_write_batch_new(store, NULL, &error);
    check(batch != NULL, error);
    for (uint64_t number = 0; number < 1000; ++number) {
        fb_descriptor event;
        check(fb_descriptor_child(subrun, number, &event, &error), error);
        const float energy = 0.5f * (float)number;
        const fb_bytes value = {(const uint8_t *)&energy, sizeof energy};
        check(fb_write_batch_create(batch, &event, &error), error);
        check(fb_write_batch_store(batch, &event, fb_text_of("energy#float"), value, &error), error);
    }
    check(fb_write_batch_flush(batch, &error), error);
    fb_write_batch_free(batch);
}

static double sum_of_energies(const fb_store *store, const fb_descriptor *dataset) {
    fb_error *error = NULL;
    const fb_text product = fb_text_of("energy#float");
    fb_loader *loader = fb_loader_start(store, dataset, -1, NULL, &product, 1, 256, 2, &error);
    check(loader != NULL, error);
    double sum = 0;
    for (;;) {
        fb_loaded *loaded = NULL;
        check(fb_loader_next(loader, &loaded, &error), error);
        if (!loaded) {
            break;
        }
        const fb_bytes *values = fb_loaded_values(loaded, 0);
        for (size_t i = 0; i < fb_loaded_len(loaded); ++i) {
            float energy = 0;
            if (values[i].size == sizeof energy) {
                memcpy(&energy, values[i].data, sizeof energy);
            }
            sum += energy;
        }
        fb_loaded_free(loaded);
    }
    fb_loader_free(loader);
    return sum;
}

int main(int argc, char **argv) {
    fb_error *error = NULL;
    fb_store *store = fb_store_connect(fb_text_of(argc > 1 ? argv[1] : "memory:"), FB_APPEND, &error);
    check(store != NULL, error);

    fb_descriptor dataset, run, subrun;
    check(fb_dataset_create(store, fb_text_of("fermilab/nova"), &dataset, &error), error);
    check(fb_descriptor_child(&dataset, 43, &run, &error), error);
    check(fb_descriptor_child(&run, 56, &subrun, &error), error);
    check(fb_container_create(store, &run, &error), error);
    check(fb_container_create(store, &subrun, &error), error);

    write_events(store, &subrun);
    printf("sum of energies in %s: %.1f\n", fb_store_url(store), sum_of_energies(store, &dataset));
    fb_store_free(store);
    return 0;
}
