/* femtobarn's ntuples and event store, for C. Generated from crates/capi by its test `header`: do not edit.
 *
 * Handles are opaque. Free each handle with the function of its type that ends in _free; NULL is allowed.
 * The last parameter of a function that can fail is `error`. On failure, the function returns false or NULL and, unless
 * `error` is NULL, stores an error there, which the caller frees with fb_error_free. On success, `error` is unchanged.
 * A returned pointer without a _free function of its own is valid as long as the handle that it was obtained from.
 *
 * Several threads may use a store, an ntuple or an index at the same time; any other handle may be used by one thread
 * at a time.
 */

#ifndef FEMTOBARN_H
#define FEMTOBARN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The Arrow C data and stream interfaces, as Arrow defines them. */

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

#endif /* ARROW_C_DATA_INTERFACE */

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

#endif /* ARROW_C_STREAM_INTERFACE */

// Stands for a number that a container does not have: the run number of a dataset, the event number of a subrun.
#define FB_ABSENT UINT64_MAX

// A dataset.
#define FB_DATASET 0

// A run.
#define FB_RUN 1

// A subrun.
#define FB_SUBRUN 2

// An event.
#define FB_EVENT 3

// Stands for a missing entry.
#define FB_NO_ENTRY UINT64_MAX

// Stands for the parent of a top-level field.
#define FB_NO_FIELD UINT32_MAX

// A field with one value per entry or per item: a number, a string, an enum, or a fixed-size array if `array_size` is
// not 0.
#define FB_PLAIN 0

// A field with a variable number of items.
#define FB_COLLECTION 1

// A field with members.
#define FB_RECORD 2

// A field with one of several types.
#define FB_VARIANT 3

// A field with serialized objects.
#define FB_STREAMER 4

// In a stream, booleans are bytes (Arrow's uint8), not bits.
#define FB_BYTE_BOOLEANS 1

// In a stream, strings are binary data, which need not be valid UTF-8.
#define FB_RAW_STRINGS 2

// The next step of a stream is read when it is requested, not in the background.
#define FB_NO_PREFETCH 4

// The new product replaces it.
#define FB_REPLACE 0

// It is kept: storing a single product fails, and a batch reports which products it kept.
#define FB_KEEP 1

// Pops values.
#define FB_CONSUMER 0

// Pushes values.
#define FB_PRODUCER 1

// Reads and writes; creates the store if it does not exist.
#define FB_APPEND 0

// Only reads, also while other processes write. The store must exist.
#define FB_READ 1

// Reads and writes; only reads if another process writes to the store, which a store in a directory allows to one.
#define FB_APPEND_OR_READ 2

// Reads and writes. The store must exist, so that a misspelt URL does not create one.
#define FB_UPDATE 3

// The datasets in another dataset, sorted by name.
typedef struct fb_datasets fb_datasets;

// An error.
typedef struct fb_error fb_error;

// Product names, and how many events have a product of each name.
typedef struct fb_event_products fb_event_products;

// Iterates over the events of a container in the order of run, subrun and event.
typedef struct fb_events fb_events;

// Fills clusters of an ntuple on one thread.
typedef struct fb_fill fb_fill;

// Finds entries by the values of integer fields.
typedef struct fb_index fb_index;

// Containers and some of their products.
typedef struct fb_loaded fb_loaded;

// Iterates over the events of a container together with some of their products.
typedef struct fb_loader fb_loader;

// One or more files as one ntuple. Several threads may use it at the same time.
typedef struct fb_ntuple fb_ntuple;

// A list of products: containers and names.
typedef struct fb_products fb_products;

// An open queue.
typedef struct fb_queue fb_queue;

// Complete clusters that are not part of the ntuple yet.
typedef struct fb_staged fb_staged;

// An event store.
typedef struct fb_store fb_store;

// Bytes that the caller frees.
typedef struct fb_value fb_value;

// Collects containers and products, and writes them when there are many.
typedef struct fb_write_batch fb_write_batch;

// An ntuple that is being written into a new file, which appears when it is finished. Several threads may use it at the
// same time.
typedef struct fb_writer fb_writer;

// What happens to a product that exists already: FB_REPLACE or FB_KEEP.
typedef uint32_t fb_overwrite;

// Limits of a batch, and its number of background threads. Zero stands for the default.
typedef struct {
    // Maximum number of containers and products collected for one target of the store.
    size_t max_items;
    // Maximum number of product bytes collected for one target.
    size_t max_bytes;
    // Threads that write in the background; with 0, the call that fills the batch writes it.
    size_t threads;
    // What happens to products that exist already.
    fb_overwrite if_there;
} fb_batch_options;

// Identifies a container: the UUID of the dataset, then the run, subrun and event numbers, big-endian. Numbers that
// the container does not have are FB_ABSENT.
typedef struct {
    // The bytes.
    uint8_t bytes[40];
} fb_descriptor;

// A string in UTF-8. It need not end with NUL, and `data` may be NULL if it is empty.
typedef struct {
    // The first byte.
    const char *data;
    // The number of bytes.
    size_t size;
} fb_text;

// Bytes. NULL stands for an absent value where the value is optional.
typedef struct {
    // The first byte.
    const uint8_t *data;
    // The number of bytes.
    size_t size;
} fb_bytes;

// The type of a container: FB_DATASET, FB_RUN, FB_SUBRUN or FB_EVENT.
typedef uint32_t fb_item_type;

// Consecutive entries.
typedef struct {
    // The number of the first entry.
    uint64_t first_entry;
    // The number of entries.
    uint64_t num_entries;
} fb_range;

// A field.
typedef struct {
    // The name in the file: `_0` for items of collections.
    fb_text name;
    // The path, as in Python: `Muon.pt`, without the names of items. Items have the path of their collection.
    fb_text path;
    // The C++ type; may be empty for records and collections without a class.
    fb_text type_name;
    // The description.
    fb_text description;
    // The number of the parent in the list of fields; FB_NO_FIELD for top-level fields.
    uint32_t parent;
    // The structure: FB_PLAIN, …
    uint32_t role;
    // The size of a fixed-size array, or 0.
    uint64_t array_size;
    // Whether the field is not part of paths: an item of a collection or array, or a base class.
    bool is_anonymous;
    // The full name of the branch that a field of a TTree has, as TBranch::GetFullName: `p4.fCoordinates.fPt`; else empty.
    fb_text branch;
    // Whether the strings of a field of a TTree are objects of ROOT's class TString.
    bool is_tstring;
} fb_field;

// Options of a stream. Zero stands for the default.
typedef struct {
    // The first entry.
    uint64_t entry_start;
    // The end of the entries, exclusive; 0 for all entries.
    uint64_t entry_stop;
    // Number of entries per batch; by default as many as take `step_bytes`.
    uint64_t step;
    // Memory of a batch in bytes; by default 64 MiB.
    uint64_t step_bytes;
    // Number of decoding threads; by default 1.
    size_t threads;
    // The sum of FB_BYTE_BOOLEANS, FB_RAW_STRINGS and FB_NO_PREFETCH.
    uint32_t flags;
} fb_stream_options;

// Called with each requested product: the index of the container, the index of the name, and the bytes. The bytes are
// NULL if the product does not exist, and are valid only during the call. It must not throw.
typedef void (*fb_visit)(void *context, size_t container, size_t name, fb_bytes value);

// How a queue is used: FB_CONSUMER or FB_PRODUCER.
typedef uint32_t fb_queue_mode;

// Returns whether to continue waiting; called about once a second. It must not throw.
typedef bool (*fb_goes_on)(void *context);

// How a store is opened: one of the four modes below.
typedef uint32_t fb_mode;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Creates an empty batch; pass NULL for the default options.
fb_write_batch *fb_write_batch_new(const fb_store *store, const fb_batch_options *options, fb_error **error);

// Adds a run, subrun or event. Writes the batch if it is full.
bool fb_write_batch_create(fb_write_batch *batch, const fb_descriptor *container, fb_error **error);

// Adds a product. Writes the batch if it is full.
bool fb_write_batch_store(fb_write_batch *batch,
                          const fb_descriptor *container,
                          fb_text name,
                          fb_bytes value,
                          fb_error **error);

// Writes everything collected, and returns when it is as durable as the store makes it. Items that could not be
// written stay in the batch; the next call tries them again.
bool fb_write_batch_flush(fb_write_batch *batch,
                          fb_error **error);

// Returns the number of collected containers and products that are not being written yet.
size_t fb_write_batch_len(const fb_write_batch *batch);

// Returns the products that existed and were kept (FB_KEEP), as known after the last flush. Each is returned once.
fb_products *fb_write_batch_take_kept(fb_write_batch *batch);

// Writes everything collected and frees the batch, also if writing fails: items that could not be written are then
// lost.
bool fb_write_batch_close(fb_write_batch *batch,
                          fb_error **error);

// Writes everything collected and frees the batch. Errors go to standard error; call fb_write_batch_flush before to
// handle them.
void fb_write_batch_free(fb_write_batch *batch);

// Creates a run, subrun or event if it does not exist.
bool fb_container_create(const fb_store *store, const fb_descriptor *container, fb_error **error);

// Checks whether a run, subrun or event exists.
bool fb_container_exists(const fb_store *store,
                         const fb_descriptor *container,
                         bool *is_there,
                         fb_error **error);

// Fails if a dataset, run, subrun or event was deleted. Call this after iterating over the children of a container, as
// another process may have deleted the container meanwhile.
bool fb_container_check_left(const fb_store *store,
                             const fb_descriptor *container,
                             fb_error **error);

// Fails if a run, subrun or event does not exist; the error lists numbers close to the requested one.
bool fb_container_require(const fb_store *store, const fb_descriptor *container, fb_error **error);

// Removes a run, subrun or event with all its products and children. Remove a dataset with fb_dataset_remove, which
// also removes its name.
bool fb_container_remove(const fb_store *store,
                         const fb_descriptor *container,
                         fb_error **error);

// Lists the numbers of the children of a container in ascending order, starting at `from`. `numbers` must have room
// for `limit` numbers; `n` returns how many were written. Fewer than `limit` means that these are the last ones. Fails
// if the container was deleted meanwhile.
bool fb_container_numbers(const fb_store *store,
                          const fb_descriptor *container,
                          uint64_t from,
                          size_t limit,
                          uint64_t *numbers,
                          size_t *n,
                          fb_error **error);

// Creates a dataset and its parent datasets if they do not exist.
bool fb_dataset_create(const fb_store *store, fb_text name, fb_descriptor *dataset, fb_error **error);

// Creates a dataset in another one, and the datasets between them, if they do not exist. The other one is given by its
// name and its descriptor. Fails if it was deleted, also if a new dataset has its name now.
bool fb_dataset_create_in(const fb_store *store,
                          fb_text holder_name,
                          const fb_descriptor *holder,
                          fb_text name,
                          fb_descriptor *dataset,
                          fb_error **error);

// Opens the dataset with this name. The empty name is the root, which holds only datasets.
bool fb_dataset_open(const fb_store *store, fb_text name, fb_descriptor *dataset, fb_error **error);

// Looks up the dataset with this name; `is_there` returns whether it exists.
bool fb_dataset_find(const fb_store *store,
                     fb_text name,
                     fb_descriptor *dataset,
                     bool *is_there,
                     fb_error **error);

// Fails if a dataset was deleted, also if a new dataset has its name now.
bool fb_dataset_require(const fb_store *store, fb_text name, const fb_descriptor *dataset, fb_error **error);

// Removes a dataset with everything in it. Also finishes an interrupted removal. With a descriptor, the call fails if
// a new dataset has this name now; with NULL, it removes whichever dataset has the name.
bool fb_dataset_remove(const fb_store *store,
                       fb_text name,
                       const fb_descriptor *dataset,
                       fb_error **error);

// Lists the datasets in another one (the root, if `name` is empty) that follow `after` (all, if `after` is empty), at
// most `limit`.
fb_datasets *fb_datasets_list(const fb_store *store,
                              fb_text name,
                              fb_text after,
                              size_t limit,
                              fb_error **error);

// Returns the number of datasets in the list.
size_t fb_datasets_len(const fb_datasets *datasets);

// Returns the last part of the name of one dataset.
fb_text fb_datasets_name(const fb_datasets *datasets, size_t at);

// Returns the descriptor of one dataset.
fb_descriptor fb_datasets_descriptor(const fb_datasets *datasets, size_t at);

// Frees a list.
void fb_datasets_free(fb_datasets *datasets);

// Returns the type of a container.
fb_item_type fb_descriptor_type(const fb_descriptor *container);

// Returns the run number, or FB_ABSENT.
uint64_t fb_descriptor_run(const fb_descriptor *container);

// Returns the subrun number, or FB_ABSENT.
uint64_t fb_descriptor_subrun(const fb_descriptor *container);

// Returns the event number, or FB_ABSENT.
uint64_t fb_descriptor_event(const fb_descriptor *container);

// Computes the descriptor of a child: a run of a dataset, a subrun of a run, an event of a subrun. The child need not
// exist.
bool fb_descriptor_child(const fb_descriptor *container,
                         uint64_t number,
                         fb_descriptor *child,
                         fb_error **error);

// Returns the kind of the error, which is stable across versions: "not-in-store", "store-locked", …
const char *fb_error_kind(const fb_error *error);

// Returns the message of the error, for people.
const char *fb_error_message(const fb_error *error);

// Frees an error.
void fb_error_free(fb_error *error);

// Starts an iteration over the events of a container: of one target of the store, or of all if `target` is negative;
// after the event `after`, or from the first if it is NULL.
fb_events *fb_events_start(const fb_store *store,
                           const fb_descriptor *container,
                           int64_t target,
                           const fb_descriptor *after,
                           fb_error **error);

// Returns the next events, all of one subrun, as `n` numbers that stay valid until the next call. At the end `n` is 0.
// Fails at the end if the container was deleted meanwhile, or a run or subrun in it that was listed.
bool fb_events_next(fb_events *events,
                    fb_descriptor *subrun,
                    const uint64_t **numbers,
                    size_t *n,
                    fb_error **error);

// Fails if the container was deleted, or a run or subrun in it that was listed so far. Call this after processing the
// events if that took longer than listing them.
bool fb_events_check_left(const fb_events *events,
                          fb_error **error);

// Ends the iteration and frees it.
void fb_events_free(fb_events *events);

// Starts loading the events of a container with some of their products, `n_events` at a time. A thread prefetches up
// to `ahead` chunks; with 0, each chunk is loaded on request. `target` and `after` are as for fb_events_start.
fb_loader *fb_loader_start(const fb_store *store,
                           const fb_descriptor *container,
                           int64_t target,
                           const fb_descriptor *after,
                           const fb_text *products,
                           size_t n_products,
                           size_t n_events,
                           size_t ahead,
                           fb_error **error);

// Returns the next events; NULL at the end. Fails at the end if the container was deleted meanwhile, or a run or subrun in
// it that was listed.
bool fb_loader_next(fb_loader *loader,
                    fb_loaded **loaded,
                    fb_error **error);

// Stops loading and frees the loader.
void fb_loader_free(fb_loader *loader);

// Loads products of containers of any type with few requests.
fb_loaded *fb_loaded_of(const fb_store *store,
                        const fb_descriptor *containers,
                        size_t n_containers,
                        const fb_text *products,
                        size_t n_products,
                        fb_error **error);

// Returns the number of containers.
size_t fb_loaded_len(const fb_loaded *loaded);

// Returns the descriptors of the containers, in their order.
const fb_descriptor *fb_loaded_containers(const fb_loaded *loaded);

// Returns the products of one product name, one for each container. The data of a missing product is NULL. Returns
// NULL if `product` is out of range.
const fb_bytes *fb_loaded_values(const fb_loaded *loaded,
                                 size_t product);

// Frees the loaded containers and products.
void fb_loaded_free(fb_loaded *loaded);

// Opens files as one ntuple. Each string is a path, a URL or a pattern, with or without `:NAME` at its end; `name` is the
// name in files without one, and may be empty if a file has only one ntuple.
//
// `options` is empty or a JSON object with any of the options of femtobarn.open in Python:
// {"verify_checksums": true, "memory_map": true, "allow_missing": false, "storage_options": {"request_timeout": 20}}
fb_ntuple *fb_ntuple_open(const fb_text *files,
                          size_t n_files,
                          fb_text name,
                          fb_text options,
                          fb_error **error);

// Frees an ntuple. Streams and indexes that were made from it may live longer.
void fb_ntuple_free(fb_ntuple *ntuple);

// Returns the name of the ntuple in its first file.
fb_text fb_ntuple_name(const fb_ntuple *ntuple);

// Returns whether it is a TTree.
bool fb_ntuple_is_tree(const fb_ntuple *ntuple);

// Returns the number of entries.
uint64_t fb_ntuple_num_entries(const fb_ntuple *ntuple);

// Returns the number of files.
size_t fb_ntuple_num_files(const fb_ntuple *ntuple);

// Returns the URL of a file without secrets, and its entries; false if the ntuple has fewer files.
bool fb_ntuple_file(const fb_ntuple *ntuple, size_t file, fb_text *url, fb_range *entries);

// Returns the number of fields, with all subfields. Fields that are not in all files are left out.
size_t fb_ntuple_num_fields(const fb_ntuple *ntuple);

// Returns the number of fields that follow them: whole objects of classes that are split into branches of a TTree, with
// all subfields. `Jets/` has the objects of the branch `Jets`.
size_t fb_ntuple_num_object_fields(const fb_ntuple *ntuple);

// Returns a field; false if there are fewer fields. Each field has a higher number than its parent.
bool fb_ntuple_field(const fb_ntuple *ntuple, size_t number, fb_field *field);

// Returns the clusters of all files; their number is stored in `n`.
const fb_range *fb_ntuple_clusters(const fb_ntuple *ntuple, size_t *n, fb_error **error);

// Stores the Arrow schema of fields, given by their paths, in `schema`. NULL stands for all fields. `flags` are those of
// fb_stream_options.
bool fb_ntuple_schema(const fb_ntuple *ntuple,
                      const fb_text *fields,
                      size_t n_fields,
                      uint32_t flags,
                      struct ArrowSchema *schema,
                      fb_error **error);

// Stores an Arrow stream of fields, given by their paths, in `stream`. NULL stands for all fields, or for the default
// options. Errors of reading are those of the stream.
bool fb_ntuple_stream(const fb_ntuple *ntuple,
                      const fb_text *fields,
                      size_t n_fields,
                      const fb_stream_options *options,
                      struct ArrowArrayStream *stream,
                      fb_error **error);

// Reads integer fields of all entries, such as run, luminosityBlock and event, to find entries by their values.
fb_index *fb_ntuple_index(const fb_ntuple *ntuple,
                          const fb_text *fields,
                          size_t n_fields,
                          size_t threads,
                          fb_error **error);

// Finds `n` entries. `values` has the values of all fields of the index for the first entry, then those for the second
// one, and so on; unsigned integers of 64 bits are cast. Stores the first entry with these values, or FB_NO_ENTRY, in
// `entries`. Several threads may use an index at the same time.
bool fb_index_find(const fb_index *index,
                   const int64_t *values,
                   size_t n,
                   uint64_t *entries,
                   fb_error **error);

// Frees an index.
void fb_index_free(fb_index *index);

// Stores a product. Its name has the form `label#type`.
bool fb_product_store(const fb_store *store,
                      const fb_descriptor *container,
                      fb_text name,
                      fb_bytes value,
                      fb_overwrite if_there,
                      fb_error **error);

// Loads a product; `value` is NULL if it does not exist.
bool fb_product_load(const fb_store *store,
                     const fb_descriptor *container,
                     fb_text name,
                     fb_value **value,
                     fb_error **error);

// Loads several products of several containers with few requests. Each is visited once, in any order.
bool fb_products_load(const fb_store *store,
                      const fb_descriptor *containers,
                      size_t n_containers,
                      const fb_text *products,
                      size_t n_products,
                      fb_visit visit,
                      void *context,
                      fb_error **error);

// Lists the products of a container.
fb_products *fb_products_list(const fb_store *store, const fb_descriptor *container, fb_error **error);

// Removes one product of a container, or all of its products if the name is empty.
bool fb_products_remove(const fb_store *store,
                        const fb_descriptor *container,
                        fb_text name,
                        fb_error **error);

// Removes products with this label from all events in a dataset, run or subrun; only those of one type if `type_name`
// is not empty. `n` returns how many were removed. Products of the container itself, and of runs and subruns in it,
// stay. Fails if no event has such a product.
bool fb_products_remove_of_events(const fb_store *store,
                                  const fb_descriptor *container,
                                  fb_text label,
                                  fb_text type_name,
                                  uint64_t *n,
                                  fb_error **error);

// Lists the product names of the events in a dataset, run or subrun, sorted.
fb_event_products *fb_event_products_list(const fb_store *store,
                                          const fb_descriptor *container,
                                          fb_error **error);

// Returns the number of names.
size_t fb_event_products_len(const fb_event_products *products);

// Returns one name: `label#type`.
fb_text fb_event_products_name(const fb_event_products *products, size_t at);

// Returns how many events have a product with this name.
uint64_t fb_event_products_n_events(const fb_event_products *products, size_t at);

// Frees a list.
void fb_event_products_free(fb_event_products *products);

// Returns the number of products in the list.
size_t fb_products_len(const fb_products *products);

// Returns the container of one product.
fb_descriptor fb_products_container(const fb_products *products, size_t at);

// Returns the name of one product: `label#type`.
fb_text fb_products_name(const fb_products *products, size_t at);

// Frees a list.
void fb_products_free(fb_products *products);

// Creates a queue if it does not exist; `is_new` returns whether it was created.
bool fb_queue_create(const fb_store *store, fb_text name, bool *is_new, fb_error **error);

// Removes a queue with its values; `was_there` returns whether it existed.
bool fb_queue_destroy(const fb_store *store, fb_text name, bool *was_there, fb_error **error);

// Opens a queue. Consumers wait for more values as long as a producer has the queue open.
fb_queue *fb_queue_open(const fb_store *store, fb_text name, fb_queue_mode mode, fb_error **error);

// Adds a value at the end of the queue.
bool fb_queue_push(const fb_queue *queue, fb_bytes value, fb_error **error);

// Takes a value from the front of the queue. Waits for a value as long as a producer has the queue open. `value` is
// NULL if all producers are done, or if `goes_on` returns false; `goes_on` may be NULL.
bool fb_queue_pop(const fb_queue *queue,
                  fb_goes_on goes_on,
                  void *context,
                  fb_value **value,
                  fb_error **error);

// Returns the number of values in the queue.
bool fb_queue_len(const fb_queue *queue, uint64_t *n, fb_error **error);

// Closes a queue: this handle pushes no more values.
bool fb_queue_close(fb_queue *queue, fb_error **error);

// Closes a queue and frees its handle.
void fb_queue_free(fb_queue *queue);

// Opens a store by its URL or by a JSON configuration, which can also set the location of large products (`objects`).
fb_store *fb_store_connect(fb_text url,
                           fb_mode mode,
                           fb_error **error);

// Closes a store. Batches, loaders and queues that were made from it may live longer.
void fb_store_free(fb_store *store);

// Returns the URL of a store, without secrets.
const char *fb_store_url(const fb_store *store);

// Checks whether two handles are the same store.
bool fb_store_is_same(const fb_store *a, const fb_store *b);

// Checks whether flushed data survives the end of the processes that hold it. It does in a directory, and in Redis if
// every server keeps an append-only file, but not in memory.
bool fb_store_is_durable(const fb_store *store);

// Returns the number of shards over which the containers and products are spread.
size_t fb_store_n_targets(const fb_store *store);

// Computes the shard that has the products and children of a container.
bool fb_store_target(const fb_store *store, const fb_descriptor *container, size_t *target, fb_error **error);

// Returns when all written data is as durable as the store makes it.
bool fb_store_flush(const fb_store *store, fb_error **error);

// Stores a note about the store as a whole, unless a note with this key exists. `noted` returns the note that the
// store has now.
bool fb_store_note(const fb_store *store,
                   fb_text key,
                   fb_bytes value,
                   fb_value **noted,
                   fb_error **error);

// Returns a note about the store, or NULL.
bool fb_store_noted(const fb_store *store, fb_text key, fb_value **noted, fb_error **error);

// For how many milliseconds the noted members of a class need not be looked up again. A forgotten class gets no other
// members before this time has passed.
uint64_t fb_classes_known_for(void);

// Forgets the members of a class that no product has any more, so that the class can be noted with other members.
// Takes some seconds, until other programs have dropped the old members from their caches.
bool fb_store_forget_class(const fb_store *store,
                           fb_text name,
                           fb_error **error);

// Computes how many bytes a value of a class has, from its noted members; 0 if the size varies. Fails if the class is
// not noted.
bool fb_store_class_size(const fb_store *store,
                         fb_text name,
                         size_t *size,
                         fb_error **error);

// Returns the bytes of a value.
fb_bytes fb_value_bytes(const fb_value *value);

// Frees a value.
void fb_value_free(fb_value *value);

// Returns the version of femtobarn.
const char *fb_version(void);

// Begins an ntuple in a new file, with fields of C++ types: "std::vector<float>" and other names that ROOT's RNTuple
// supports. `name` may have directories: "folder/Events".
//
// `options` is empty or a JSON object with any of {"compression": "zstd:5", "cluster_size": "128 MiB",
// "cluster_size_uncompressed": …, "page_size": …, "memory_limit": …, "page_checksums": true, "threads": 1,
// "description": "", "replace": true, "storage_options": {}}.
fb_writer *fb_writer_new(fb_text url,
                         fb_text name,
                         const fb_text *fields,
                         const fb_text *types,
                         size_t n_fields,
                         fb_text options,
                         fb_error **error);

// Begins an ntuple in a new file, with the fields of an Arrow schema; otherwise as fb_writer_new.
fb_writer *fb_writer_of_schema(fb_text url,
                               fb_text name,
                               const struct ArrowSchema *schema,
                               fb_text options,
                               fb_error **error);

// Adds entries: an Arrow array of structs, one member for each field. The array is released, also on failure. Stores the
// number of its first entry, which is final, in `first_entry` unless it is NULL. A batch is taken as a whole or not at all.
bool fb_writer_extend(const fb_writer *writer,
                      const struct ArrowSchema *schema,
                      struct ArrowArray *array,
                      uint64_t *first_entry,
                      fb_error **error);

// Adds fields of C++ types. In existing entries they are zero, empty or missing. Entries in fills must have been
// committed; a fill has the new fields from its next entry on.
bool fb_writer_add_fields(const fb_writer *writer,
                          const fb_text *fields,
                          const fb_text *types,
                          size_t n_fields,
                          fb_error **error);

// Adds the fields of an Arrow schema; otherwise as fb_writer_add_fields.
bool fb_writer_add_fields_of_schema(const fb_writer *writer,
                                    const struct ArrowSchema *schema,
                                    fb_error **error);

// Returns the number of entries that were added or committed.
uint64_t fb_writer_num_entries(const fb_writer *writer);

// Writes the current cluster, if it has entries that were added by fb_writer_extend.
bool fb_writer_commit_cluster(const fb_writer *writer, fb_error **error);

// Begins to fill clusters on another thread. Its entries become part of the ntuple by fb_fill_stage and
// fb_writer_commit. One thread at a time may use a fill.
fb_fill *fb_fill_new(const fb_writer *writer, fb_error **error);

// Adds entries to a fill, and compresses complete clusters on this thread. The array is released, also on failure.
bool fb_fill_extend(fb_fill *fill,
                    const struct ArrowSchema *schema,
                    struct ArrowArray *array,
                    fb_error **error);

// Takes all entries of a fill as complete clusters, compressed on this thread. Stores their number in `n_entries` unless
// it is NULL. The result is committed, or freed with its entries.
fb_staged *fb_fill_stage(fb_fill *fill,
                         uint64_t *n_entries,
                         fb_error **error);

// Frees a fill. Entries that were not staged are lost: the ntuple cannot be finished then.
void fb_fill_free(fb_fill *fill);

// Adds staged clusters after all entries so far, and frees them. Stores the number of their first entry, which is final,
// in `first_entry` unless it is NULL. The order of calls is the order of the clusters.
bool fb_writer_commit(const fb_writer *writer,
                      fb_staged *staged,
                      uint64_t *first_entry,
                      fb_error **error);

// Frees staged clusters, whose entries are lost: the ntuple cannot be finished then.
void fb_staged_free(fb_staged *staged);

// Completes the ntuple and its file, which appears now. Stores the number of entries in `n_entries` unless it is NULL.
bool fb_writer_finish(const fb_writer *writer,
                      uint64_t *n_entries,
                      fb_error **error);

// Frees a writer. A file that is not finished does not appear.
void fb_writer_free(fb_writer *writer);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FEMTOBARN_H */

/* Converts a string that ends with NUL to an fb_text. */
static inline fb_text fb_text_of(const char *text) {
    fb_text made;
    made.data = text;
    made.size = strlen(text);
    return made;
}
