/* femtobarn's event store, for C. Generated from crates/capi by its test `header`: do not edit.
 *
 * Handles are opaque, and each is given back to the function of its kind that ends in _free; NULL may be given, too.
 * A function that can fail has an error as its last parameter: where it fails, it returns false or NULL and, unless
 * that parameter is NULL, puts there an error that the caller frees; where it does not, the parameter is left alone.
 * Whatever is returned by pointer and not freed by a function of its own belongs to the handle that it was asked of.
 *
 * A store may be used by several threads at once; each other handle by one thread at a time.
 */

#ifndef FEMTOBARN_H
#define FEMTOBARN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// The number that a container does not have: that of the run of a dataset, of the event of a subrun.
#define FB_ABSENT UINT64_MAX

// A dataset.
#define FB_DATASET 0

// A run.
#define FB_RUN 1

// A subrun.
#define FB_SUBRUN 2

// An event.
#define FB_EVENT 3

// The new one takes its place.
#define FB_REPLACE 0

// It stays as it is: storing one product fails, and a batch says which it kept.
#define FB_KEEP 1

// Takes from it.
#define FB_CONSUMER 0

// Pushes to it.
#define FB_PRODUCER 1

// To be read and written, and made if it is not there.
#define FB_APPEND 0

// To be read only, beside processes that write. It must be there.
#define FB_READ 1

// To be read and written, or to be read if another process writes to it, as one in a folder has one that does.
#define FB_APPEND_OR_READ 2

// To be read and written. It must be there: none is made where its place was misspelt.
#define FB_UPDATE 3

// Datasets in another, in the order of their names.
typedef struct fb_datasets fb_datasets;

// What went wrong.
typedef struct fb_error fb_error;

// Names of products, and how many events have one of each.
typedef struct fb_event_products fb_event_products;

// The events of a container in the order of run, subrun and event, some at a time.
typedef struct fb_events fb_events;

// Containers, and products of theirs.
typedef struct fb_loaded fb_loaded;

// The events of a container, with products of theirs.
typedef struct fb_loader fb_loader;

// Products by their containers and names.
typedef struct fb_products fb_products;

// A queue that is open.
typedef struct fb_queue fb_queue;

// An event store.
typedef struct fb_store fb_store;

// Bytes that the caller frees.
typedef struct fb_value fb_value;

// Containers and products that are collected, and written when there are many.
typedef struct fb_write_batch fb_write_batch;

// What happens to a product that is there already: FB_REPLACE or FB_KEEP.
typedef uint32_t fb_overwrite;

// What a batch may hold before it is written, and who writes it. Zeros stand for what is usual.
typedef struct {
    // Containers and products for one target of the store, at most.
    size_t max_items;
    // Bytes of products for one target, at most.
    size_t max_bytes;
    // Threads that write in the background; with none, who fills a batch writes it.
    size_t threads;
    // What happens to products that are there already.
    fb_overwrite if_there;
} fb_batch_options;

// Which container is meant: the UUID of a dataset, and the numbers of run, subrun and event, big-endian; what a container
// does not have is FB_ABSENT.
typedef struct {
    // The bytes.
    uint8_t bytes[40];
} fb_descriptor;

// A text in UTF-8; it need not end with NUL, and may be NULL if it is empty.
typedef struct {
    // Its first byte.
    const char *data;
    // The number of its bytes.
    size_t size;
} fb_text;

// Bytes; NULL stands for none where something may be absent.
typedef struct {
    // The first.
    const uint8_t *data;
    // How many there are.
    size_t size;
} fb_bytes;

// What a container is: one of FB_DATASET, FB_RUN, FB_SUBRUN, FB_EVENT.
typedef uint32_t fb_item_type;

// Is given each product that was asked for: which of the containers, which of the names, and its bytes, which are NULL if
// it is not there and else live until this returns. It must not throw.
typedef void (*fb_visit)(void *context, size_t container, size_t name, fb_bytes value);

// What one does with a queue: FB_CONSUMER or FB_PRODUCER.
typedef uint32_t fb_queue_mode;

// Says whether waiting goes on; asked about once a second. It must not throw.
typedef bool (*fb_goes_on)(void *context);

// How a store is opened: one of the four below.
typedef uint32_t fb_mode;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// An empty batch; NULL for the usual options.
fb_write_batch *fb_write_batch_new(const fb_store *store, const fb_batch_options *options, fb_error **error);

// Adds a run, subrun or event; writes, if the batch is full.
bool fb_write_batch_create(fb_write_batch *batch, const fb_descriptor *container, fb_error **error);

// Adds a product; writes, if the batch is full.
bool fb_write_batch_store(fb_write_batch *batch,
                          const fb_descriptor *container,
                          fb_text name,
                          fb_bytes value,
                          fb_error **error);

// Writes all that was collected, and returns when it is as durable as the store makes it. What could not be written is
// kept, and written by the next call if that can.
bool fb_write_batch_flush(fb_write_batch *batch,
                          fb_error **error);

// How many containers and products were collected that nobody writes yet.
size_t fb_write_batch_len(const fb_write_batch *batch);

// The products that were there and were kept (FB_KEEP), as far as is known after the last flush; each is given once.
fb_products *fb_write_batch_take_kept(fb_write_batch *batch);

// Writes what was collected and frees the batch, also if that fails: what could not be written is lost then.
bool fb_write_batch_close(fb_write_batch *batch, fb_error **error);

// Writes what was collected and frees the batch. Errors go to standard error then: who wants to know calls
// fb_write_batch_flush before.
void fb_write_batch_free(fb_write_batch *batch);

// Creates a run, subrun or event, if it is not there.
bool fb_container_create(const fb_store *store, const fb_descriptor *container, fb_error **error);

// Whether a run, subrun or event is there.
bool fb_container_exists(const fb_store *store,
                         const fb_descriptor *container,
                         bool *is_there,
                         fb_error **error);

// Fails if a dataset, run, subrun or event was deleted. Whoever has passed over what it holds calls this at the end, as
// others may have deleted it meanwhile.
bool fb_container_check_left(const fb_store *store,
                             const fb_descriptor *container,
                             fb_error **error);

// Fails if a run, subrun or event is not there; the error says which numbers are near.
bool fb_container_require(const fb_store *store, const fb_descriptor *container, fb_error **error);

// Removes a run, subrun or event, with all products and all that it holds. A dataset has a name, which must go with it:
// fb_dataset_remove removes it.
bool fb_container_remove(const fb_store *store,
                         const fb_descriptor *container,
                         fb_error **error);

// The numbers of what a container holds, in their order, from `from` on: at most `limit`, for which `numbers` has room.
// `n` says how many there were; fewer than `limit` are the last ones, and an error if the container was deleted meanwhile.
bool fb_container_numbers(const fb_store *store,
                          const fb_descriptor *container,
                          uint64_t from,
                          size_t limit,
                          uint64_t *numbers,
                          size_t *n,
                          fb_error **error);

// Creates a dataset, and those that it is in, if they are not there.
bool fb_dataset_create(const fb_store *store, fb_text name, fb_descriptor *dataset, fb_error **error);

// Creates a dataset in another, of which it is known how it is called and which one it is, and those between, if they are
// not there. It fails if that other one was deleted, also if there is another of its name now.
bool fb_dataset_create_in(const fb_store *store,
                          fb_text holder_name,
                          const fb_descriptor *holder,
                          fb_text name,
                          fb_descriptor *dataset,
                          fb_error **error);

// The dataset of a name. The empty name is that of the root, which holds datasets and nothing else.
bool fb_dataset_open(const fb_store *store, fb_text name, fb_descriptor *dataset, fb_error **error);

// Looks for the dataset of a name; says whether it is there.
bool fb_dataset_find(const fb_store *store,
                     fb_text name,
                     fb_descriptor *dataset,
                     bool *is_there,
                     fb_error **error);

// Fails if a dataset was deleted, also if another has its name now.
bool fb_dataset_require(const fb_store *store, fb_text name, const fb_descriptor *dataset, fb_error **error);

// Removes a dataset, with all that is in it: also one whose removal was broken off. With a descriptor, it fails if another
// one has its name now; with NULL, it is whichever has the name.
bool fb_dataset_remove(const fb_store *store,
                       fb_text name,
                       const fb_descriptor *dataset,
                       fb_error **error);

// The datasets in another (the root, if its name is empty) that follow one of them (the first, if `after` has no bytes),
// `limit` at most.
fb_datasets *fb_datasets_list(const fb_store *store,
                              fb_text name,
                              fb_text after,
                              size_t limit,
                              fb_error **error);

// How many there are.
size_t fb_datasets_len(const fb_datasets *datasets);

// The last part of the name of one.
fb_text fb_datasets_name(const fb_datasets *datasets, size_t at);

// The descriptor of one.
fb_descriptor fb_datasets_descriptor(const fb_datasets *datasets, size_t at);

// Frees a list.
void fb_datasets_free(fb_datasets *datasets);

// What a container is.
fb_item_type fb_descriptor_type(const fb_descriptor *container);

// The number of its run, or FB_ABSENT.
uint64_t fb_descriptor_run(const fb_descriptor *container);

// The number of its subrun, or FB_ABSENT.
uint64_t fb_descriptor_subrun(const fb_descriptor *container);

// The number of its event, or FB_ABSENT.
uint64_t fb_descriptor_event(const fb_descriptor *container);

// The container of a number in another, whether it is there or not: a run of a dataset, a subrun of a run, an event of a
// subrun.
bool fb_descriptor_child(const fb_descriptor *container,
                         uint64_t number,
                         fb_descriptor *child,
                         fb_error **error);

// The name of what went wrong, which stays the same from version to version: "not-in-store", "store-locked", …
const char *fb_error_kind(const fb_error *error);

// What went wrong, for people.
const char *fb_error_message(const fb_error *error);

// Frees an error.
void fb_error_free(fb_error *error);

// Begins to go through the events of a container: of one target of the store, or of all if `target` is negative; behind
// one of them, or from the first if `after` is NULL. There are none of a dataset that was deleted, which fb_events_next
// says.
fb_events *fb_events_start(const fb_store *store,
                           const fb_descriptor *container,
                           int64_t target,
                           const fb_descriptor *after,
                           fb_error **error);

// The next events, all of one subrun: `n` numbers, which are there until the next call. At the end `n` is 0.
bool fb_events_next(fb_events *events,
                    fb_descriptor *subrun,
                    const uint64_t **numbers,
                    size_t *n,
                    fb_error **error);

// Ends going through events.
void fb_events_free(fb_events *events);

// Begins to load the events of a container, with products of theirs, in pieces of `n_events`; `ahead` of these are
// fetched by a thread, or with 0 each when it is asked for. `target` and `after` are those of fb_events_start.
fb_loader *fb_loader_start(const fb_store *store,
                           const fb_descriptor *container,
                           int64_t target,
                           const fb_descriptor *after,
                           const fb_text *products,
                           size_t n_products,
                           size_t n_events,
                           size_t ahead,
                           fb_error **error);

// The next events; NULL at the end. It fails if there are none since the dataset was deleted.
bool fb_loader_next(fb_loader *loader, fb_loaded **loaded, fb_error **error);

// Ends loading.
void fb_loader_free(fb_loader *loader);

// Loads products of containers of any kind with few requests.
fb_loaded *fb_loaded_of(const fb_store *store,
                        const fb_descriptor *containers,
                        size_t n_containers,
                        const fb_text *products,
                        size_t n_products,
                        fb_error **error);

// How many containers there are.
size_t fb_loaded_len(const fb_loaded *loaded);

// Which they are, in their order.
const fb_descriptor *fb_loaded_containers(const fb_loaded *loaded);

// The products of one of the names, one for each container; the data of those that are not there are NULL. NULL if there
// are not so many names.
const fb_bytes *fb_loaded_values(const fb_loaded *loaded,
                                 size_t product);

// Frees what was loaded.
void fb_loaded_free(fb_loaded *loaded);

// Stores a product. Its name is `label#type`.
bool fb_product_store(const fb_store *store,
                      const fb_descriptor *container,
                      fb_text name,
                      fb_bytes value,
                      fb_overwrite if_there,
                      fb_error **error);

// Loads a product; NULL if it is not there.
bool fb_product_load(const fb_store *store,
                     const fb_descriptor *container,
                     fb_text name,
                     fb_value **value,
                     fb_error **error);

// Loads products of several names of several containers with few requests; each is visited once, in any order.
bool fb_products_load(const fb_store *store,
                      const fb_descriptor *containers,
                      size_t n_containers,
                      const fb_text *products,
                      size_t n_products,
                      fb_visit visit,
                      void *context,
                      fb_error **error);

// The products of a container.
fb_products *fb_products_list(const fb_store *store, const fb_descriptor *container, fb_error **error);

// Removes a product of a container, or all if the name has no bytes.
bool fb_products_remove(const fb_store *store,
                        const fb_descriptor *container,
                        fb_text name,
                        fb_error **error);

// Removes products of all events in a dataset, run or subrun: those of a label, or of one of its types if that has bytes;
// `n` says how many there were. Products of the container itself stay, and those of runs and subruns in it. It fails if no
// event has one.
bool fb_products_remove_of_events(const fb_store *store,
                                  const fb_descriptor *container,
                                  fb_text label,
                                  fb_text type_name,
                                  uint64_t *n,
                                  fb_error **error);

// The products of the events in a dataset, run or subrun, in the order of their names.
fb_event_products *fb_event_products_list(const fb_store *store,
                                          const fb_descriptor *container,
                                          fb_error **error);

// How many names there are.
size_t fb_event_products_len(const fb_event_products *products);

// One of the names: `label#type`.
fb_text fb_event_products_name(const fb_event_products *products, size_t at);

// How many events have a product of that name.
uint64_t fb_event_products_n_events(const fb_event_products *products, size_t at);

// Frees a list.
void fb_event_products_free(fb_event_products *products);

// How many there are.
size_t fb_products_len(const fb_products *products);

// The container of one, which is there.
fb_descriptor fb_products_container(const fb_products *products, size_t at);

// The name of one: `label#type`.
fb_text fb_products_name(const fb_products *products, size_t at);

// Frees a list.
void fb_products_free(fb_products *products);

// Creates a queue; says whether there was none.
bool fb_queue_create(const fb_store *store, fb_text name, bool *is_new, fb_error **error);

// Removes a queue, with what is in it; says whether there was one.
bool fb_queue_destroy(const fb_store *store, fb_text name, bool *was_there, fb_error **error);

// Opens a queue. As long as a producer has it open, consumers wait for more.
fb_queue *fb_queue_open(const fb_store *store, fb_text name, fb_queue_mode mode, fb_error **error);

// Adds a value to its end.
bool fb_queue_push(const fb_queue *queue, fb_bytes value, fb_error **error);

// Takes a value from its front; waits for one as long as somebody may push. NULL if nobody will any more, or if `goes_on`
// (or NULL) says that waiting is to end.
bool fb_queue_pop(const fb_queue *queue,
                  fb_goes_on goes_on,
                  void *context,
                  fb_value **value,
                  fb_error **error);

// How many values are in it.
bool fb_queue_len(const fb_queue *queue, uint64_t *n, fb_error **error);

// Says that nothing more will be pushed from here.
bool fb_queue_close(fb_queue *queue, fb_error **error);

// Closes a queue and frees its handle.
void fb_queue_free(fb_queue *queue);

// Opens the store of a URL, or of a JSON configuration, which also says where large products are to be (`objects`).
fb_store *fb_store_connect(fb_text url,
                           fb_mode mode,
                           fb_error **error);

// Closes a store. What was made of it (batches, loaders, queues) may live longer.
void fb_store_free(fb_store *store);

// Where a store is, without secrets.
const char *fb_store_url(const fb_store *store);

// Whether two are the same store.
bool fb_store_is_same(const fb_store *a, const fb_store *b);

// Whether what was flushed is there when the processes have ended that keep it: in a folder, and in a Redis of which every
// server keeps a log, but not in memory.
bool fb_store_is_durable(const fb_store *store);

// Over how many shards the containers and products are spread.
size_t fb_store_n_targets(const fb_store *store);

// On which of them are the products of a container, and what it holds.
bool fb_store_target(const fb_store *store, const fb_descriptor *container, size_t *target, fb_error **error);

// Returns when all that was written is as durable as the store makes it.
bool fb_store_flush(const fb_store *store, fb_error **error);

// Notes something about the store as a whole; gives what is noted now, which is what was there before, if there was
// something.
bool fb_store_note(const fb_store *store,
                   fb_text key,
                   fb_bytes value,
                   fb_value **noted,
                   fb_error **error);

// What was noted, or NULL.
bool fb_store_noted(const fb_store *store, fb_text key, fb_value **noted, fb_error **error);

// For how many milliseconds what was noted of a class need not be looked up again: nobody gives it other members so soon
// after it was forgotten.
uint64_t fb_classes_known_for(void);

// Forgets the members of a class that no product has any more, so that it can be noted with others. Takes some seconds:
// so long, other programs take the class for what it was.
bool fb_store_forget_class(const fb_store *store,
                           fb_text name,
                           fb_error **error);

// How many bytes values of a class have, by the members that the store has noted; 0 if not all have as many. It fails if
// the class is not noted.
bool fb_store_class_size(const fb_store *store,
                         fb_text name,
                         size_t *size,
                         fb_error **error);

// The bytes of a value.
fb_bytes fb_value_bytes(const fb_value *value);

// Frees a value.
void fb_value_free(fb_value *value);

// The version of femtobarn.
const char *fb_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FEMTOBARN_H */

/* A text that ends with NUL, as functions want it. */
static inline fb_text fb_text_of(const char *text) {
    fb_text made;
    made.data = text;
    made.size = strlen(text);
    return made;
}
