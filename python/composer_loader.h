/* clang-format off */
/* The loader of composer for other languages: an image set becomes batches in memory.
 *
 *   composer_loader* set = composer_loader_open("{\"source\": \"train.beton\", \"batch_size\": 256}");
 *   composer_stream* stream = composer_loader_stream(set);
 *   composer_batch batch;
 *   composer_stream_start(stream, 0, 0);
 *   while (composer_stream_next(stream, -1, &batch) == COMPOSER_BATCH) {
 *     ...
 *     composer_batch_release(&batch);
 *   }
 *   composer_stream_close(stream);
 *   composer_loader_close(set);
 *
 * A function that fails returns null or COMPOSER_FAILED; composer_loader_error() then tells why. Sets may be
 * used by several threads, a stream by one thread at a time. Arguments that are sets or streams are not null. */
#ifndef COMPOSER_LOADER_H
#define COMPOSER_LOADER_H

#include <stdint.h>

#if defined(__GNUC__)
#define COMPOSER_API __attribute__((visibility("default")))
#else
#define COMPOSER_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A set, opened, with all that decides its batches. */
typedef struct composer_loader composer_loader;
/* Endless epochs of a set's batches. It has worker threads of its own. */
typedef struct composer_stream composer_stream;

enum composer_status {
  COMPOSER_FAILED = -1,
  COMPOSER_END = 0,
  COMPOSER_BATCH = 1,
  COMPOSER_WAIT = 2
};
enum composer_type {
  COMPOSER_UINT8 = 0,
  COMPOSER_FLOAT32 = 1,
  COMPOSER_BFLOAT16 = 2,
  COMPOSER_FLOAT16 = 3
};
enum composer_error_kind {
  COMPOSER_BAD_ARGUMENT = 1, /* an option is wrong */
  COMPOSER_BAD_FILE = 2,     /* the data cannot be opened or read */
  COMPOSER_NO_FILE = 3,      /* there is no such file or folder */
  COMPOSER_BAD_SAMPLE = 4,   /* a sample cannot be read, and on_bad_sample is error */
  COMPOSER_NO_MEMORY = 5,
  COMPOSER_OTHER_ERROR = 6
};

typedef struct composer_error {
  int32_t kind;        /* enum composer_error_kind */
  const char* message; /* UTF-8 */
  const char* path;    /* a bad sample's name: its file, or the file and the position in it */
  int64_t index;       /* a bad sample's number; else -1 */
} composer_error;

/* A batch of N images, and what its memory is released by. */
typedef struct composer_batch {
  void* images;       /* [N, H, W, C], row-major, without gaps */
  int64_t shape[4];   /* N, H, W, C; N may be 0: other ranks have the samples, or none could be read */
  int32_t type;       /* enum composer_type */
  int64_t given;      /* the name of the given memory that the images lie in; -1: the library's memory */
  int64_t* classes;   /* [N]; null where targets are values */
  float* values;      /* [N, num_values]; null where targets are classes */
  int64_t num_values; /* 0 where targets are classes */
  int64_t* samples;   /* [N], the numbers of the samples in the set */
  void* memory;       /* for composer_batch_release() */
} composer_batch;

/* This library's version, "1.2.3". */
COMPOSER_API const char* composer_loader_version(void);

/* The error of this thread's last failed call, valid until the thread's next call. */
COMPOSER_API const composer_error* composer_loader_error(void);

/* The log's lines since the last call, as a JSON array of [level, text], level "info" or "warning";
 * null where there are none. Valid until the thread's next call. Any thread's work may add lines.
 */
COMPOSER_API const char* composer_loader_messages(void);

/* Opens a set. options: a JSON object; its keys are the arguments of Loader in python/composer_loader/_loader.py,
 * but for layout, device, framework and samples: "source" and "batch_size" among them, "size" as [height, width],
 * "split" as {"val", "seed"}. batch_size is one rank's. Without rank and world_size, a launcher's variables count.
 *
 * With "order": "given", composer_stream_order() gives the order of each epoch, of "positions" samples of this rank;
 * "repeats": whether an epoch may have a sample more than once; "whole_pages": whether the order goes through windows
 * of the file's pages. "pipeline" is then a list of objects with "step" and its parameters: first "whole",
 * "random_resized_crop" ("scale", "ratio") or "center_crop" ("share"), then in any order "flip" ("p"), "translate"
 * ("padding", "fill"), "cutout" ("side", "fill"), "brightness", "contrast" and "saturation" ("magnitude", "p").
 * "image_field" names the .beton file's field of images; where it is empty, batches have samples' numbers alone.
 * Images of another type than uint8 are looked up in "table", [256][C] numbers of each byte and channel. */
COMPOSER_API composer_loader* composer_loader_open(const char* options);

/* What the set is, as a JSON object: num_samples, batches (of an epoch), num_classes (null: not known),
 * class_names, channels, size [height, width], batch_size (of all ranks), rank, world_size, seed, drop_last,
 * num_workers, prefetch_factor, digest (equal for equal data) and selection (equal for equal samples of equal
 * data). Valid until the set is closed. */
COMPOSER_API const char* composer_loader_describe(const composer_loader* set);

/* The name of a sample: its file, or the file and the position in it. Valid until the thread's next call. */
COMPOSER_API const char* composer_loader_sample(const composer_loader* set, int64_t index);

/* A new stream, at the first batch of epoch 0. The set may be closed before the stream. */
COMPOSER_API composer_stream* composer_loader_stream(composer_loader* set);
COMPOSER_API void composer_loader_close(composer_loader* set);

/* Images of later epochs, from `epoch` on, have this size, of pixels 1 to 4096, until the next
 * epoch that has another; only of training images. To be called before composer_stream_start();
 * epochs that threads already work ahead in keep their size otherwise. */
COMPOSER_API int composer_stream_size(composer_stream* stream, int64_t epoch, int64_t height,
                                      int64_t width);

/* The order of an epoch, with "order": "given": `count` ("positions") numbers of samples. To be called before the epoch
 * begins; earlier epochs are forgotten. */
COMPOSER_API int composer_stream_order(composer_stream* stream, int64_t epoch, const int64_t* samples,
                                       int64_t count);

/* Goes on from this batch of this epoch, without reading those before. Drops batches that were made
 * ahead. */
COMPOSER_API int composer_stream_start(composer_stream* stream, int64_t epoch, int64_t batch);

/* The next batch: COMPOSER_BATCH; COMPOSER_END once at the end of each epoch, after which the next
 * epoch begins; COMPOSER_WAIT where there is none after `milliseconds` (below 0: waits as long as
 * it takes). */
COMPOSER_API int composer_stream_next(composer_stream* stream, int64_t milliseconds,
                                      composer_batch* batch);

/* Memory of the caller, for the images of one later batch: page-locked memory, say. It is the
 * library's until a batch names it as `given`, or the stream is closed; then it is the caller's
 * again. A batch that needs more bytes, or finds no given memory, has the library's. */
COMPOSER_API void composer_stream_give(composer_stream* stream, void* memory, int64_t bytes,
                                       int64_t name);

/* Batches stay valid. */
COMPOSER_API void composer_stream_close(composer_stream* stream);

/* An image as .beton files have it. */
typedef struct composer_image {
  const void* bytes;
  int64_t size;           /* of `bytes` */
  int64_t height, width;  /* of the image */
  int32_t is_jpeg;        /* 0: the bytes are pixels, RGB, row by row */
} composer_image;

/* Packs an image, uint8 [height, width, 3], for a .beton file. options: a JSON object of FFCV's write_mode,
 * max_resolution, smart_threshold, jpeg_quality and compress_probability. row: its number, by which write_mode
 * proportion draws. Any thread may call it. */
COMPOSER_API composer_image* composer_image_pack(const char* options, const uint8_t* pixels, int64_t height,
                                                 int64_t width, int64_t row);
COMPOSER_API void composer_image_release(composer_image* image);

/* Any thread may release a batch, at any time. */
COMPOSER_API void composer_batch_release(composer_batch* batch);

#ifdef __cplusplus
}
#endif

#endif
