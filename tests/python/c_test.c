/* composer_loader.h from C: a folder of images becomes batches. Usage: c_test FOLDER (an empty one). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "python/composer_loader.h"

static int failures = 0;

static void check(int holds, const char* what) {
  if (holds) return;
  const composer_error* const error = composer_loader_error();
  fprintf(stderr, "failed: %s (last error: %d, %s)\n", what, (int)error->kind, error->message);
  ++failures;
}

/* Ten images of 8 x 8 in two classes; all bytes of image i are i. */
static void write_images(const char* folder) {
  for (int i = 0; i < 10; ++i) {
    char path[1000];
    snprintf(path, sizeof path, "%s/%s", folder, i < 5 ? "a" : "b");
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s/%d.ppm", folder, i < 5 ? "a" : "b", i);
    FILE* const file = fopen(path, "wb");
    if (file == NULL) exit(2);
    fputs("P6 8 8 255\n", file);
    for (int b = 0; b < 8 * 8 * 3; ++b) fputc(i, file);
    fclose(file);
  }
}

/* Epochs in a given order, with steps and a table. */
static void check_given_order(const char* folder) {
  static char options[12000];
  int end = snprintf(options, sizeof options,
                     "{\"source\": \"%s\", \"batch_size\": 2, \"size\": 8, \"order\": \"given\", \"positions\": 5,"
                     " \"repeats\": true, \"drop_last\": false, \"output\": \"float32\", \"num_workers\": 2,"
                     " \"pipeline\": [{\"step\": \"whole\"}, {\"step\": \"flip\", \"p\": 1}, {\"step\": \"cutout\", \"side\": 8,"
                     " \"fill\": [9, 9, 9]}, {\"step\": \"translate\", \"padding\": 0}], \"table\": [0",
                     folder);
  for (int i = 1; i < 768; ++i) end += snprintf(options + end, sizeof options - (size_t)end, ", %d", i);
  snprintf(options + end, sizeof options - (size_t)end, "]}");
  composer_loader* const set = composer_loader_open(options);
  check(set != NULL, "a set with an order of the caller's is opened");
  if (set == NULL) return;
  composer_stream* const stream = composer_loader_stream(set);
  composer_loader_close(set);
  composer_batch batch;
  check(composer_stream_next(stream, -1, &batch) == COMPOSER_FAILED, "an epoch needs its order");
  const int64_t orders[2][5] = {{9, 0, 0, 3, 7}, {1, 2, 3, 4, 5}};
  check(composer_stream_order(stream, 0, orders[0], 4) == COMPOSER_FAILED, "an order has its length");
  const int64_t wrong[5] = {0, 1, 2, 3, 10};
  check(composer_stream_order(stream, 0, wrong, 5) == COMPOSER_FAILED, "an order's samples are there");
  for (int epoch = 0; epoch < 2; ++epoch) {
    check(composer_stream_order(stream, epoch, orders[epoch], 5) > 0, "an order is taken");
    if (epoch == 0) check(composer_stream_start(stream, 0, 0) > 0, "it starts");
    int images = 0;
    while (composer_stream_next(stream, -1, &batch) == COMPOSER_BATCH) {
      for (int64_t i = 0; i < batch.shape[0]; ++i, ++images) {
        check(batch.samples[i] == orders[epoch][images], "samples come in the order");
        check(((float*)batch.images)[i * 8 * 8 * 3 + 1] == 9 * 3 + 1, "pixels are looked up");
      }
      composer_batch_release(&batch);
    }
    check(images == 5, "an epoch has its samples");
  }
  composer_stream_close(stream);
}

static void check_packing(void) {
  unsigned char pixels[20 * 10 * 3];
  memset(pixels, 77, sizeof pixels);
  composer_image* image = composer_image_pack("{\"max_resolution\": 10}", pixels, 20, 10, 0);
  check(image != NULL && image->height == 10 && image->width == 5 && image->size == 150 && !image->is_jpeg &&
            ((const unsigned char*)image->bytes)[149] == 77,
        "an image is shrunk");
  if (image != NULL) composer_image_release(image);
  image = composer_image_pack("{\"write_mode\": \"jpg\"}", pixels, 20, 10, 0);
  check(image != NULL && image->is_jpeg && ((const unsigned char*)image->bytes)[0] == 0xff, "an image becomes a JPEG");
  if (image != NULL) composer_image_release(image);
  check(composer_image_pack("{\"write_mode\": \"png\"}", pixels, 20, 10, 0) == NULL, "there is no such mode");
}

int main(int count, char** words) {
  if (count != 2) return 2;
  write_images(words[1]);
  char options[2000];
  snprintf(options, sizeof options,
           "{\"source\": \"%s\", \"batch_size\": 4, \"size\": [8, 8], \"pipeline\": \"eval\", \"resize_size\": 8,"
           " \"rank\": 0, \"world_size\": 1, \"num_workers\": 2}",
           words[1]);
  composer_loader* const set = composer_loader_open(options);
  check(set != NULL, "the folder is opened");
  if (set == NULL) return 1;
  check(strstr(composer_loader_describe(set), "\"num_samples\":10") != NULL, "it has ten samples");
  check(strstr(composer_loader_sample(set, 7), "/b/7.ppm") != NULL, "a sample has its name");
  check(composer_loader_sample(set, 10) == NULL, "there is no eleventh sample");
  composer_stream* const stream = composer_loader_stream(set);
  composer_stream* const second = composer_loader_stream(set);
  check(stream != NULL && second != NULL, "there are two streams");
  composer_loader_close(set);

  static unsigned char given[4 * 8 * 8 * 3];
  composer_stream_give(stream, given, sizeof given, 7);
  check(composer_stream_start(stream, 0, 0) >= 0, "it starts");
  int images = 0, in_given = 0;
  composer_batch batch, kept = {0};
  int status = COMPOSER_WAIT;
  while ((status = composer_stream_next(stream, 20, &batch)) > 0) {
    if (status == COMPOSER_WAIT) continue;
    check(batch.type == COMPOSER_UINT8 && batch.shape[1] == 8 && batch.shape[2] == 8 && batch.shape[3] == 3,
          "the shape is [N, 8, 8, 3]");
    if (batch.given == 7 && batch.images == given) ++in_given;
    for (int64_t i = 0; i < batch.shape[0]; ++i, ++images) {
      check(((unsigned char*)batch.images)[i * 8 * 8 * 3] == images, "an image has its pixels");
      check(batch.samples[i] == images, "an image has its number");
      check(batch.classes[i] == (images < 5 ? 0 : 1), "an image has its class");
    }
    if (kept.memory == NULL)
      kept = batch;
    else
      composer_batch_release(&batch);
  }
  check(status == COMPOSER_END, "the epoch ends");
  check(images == 10, "ten images came");
  check(in_given == 1, "one batch lay in the given memory");
  check(composer_stream_start(stream, 3, 2) >= 0, "it goes on elsewhere");
  check(composer_stream_next(stream, -1, &batch) == COMPOSER_BATCH && batch.shape[0] == 2, "the last batch has two images");
  composer_batch_release(&batch);
  check(composer_stream_size(stream, 0, 4, 4) == COMPOSER_FAILED &&
            composer_loader_error()->kind == COMPOSER_BAD_ARGUMENT,
        "an evaluation keeps its size");
  composer_stream_close(stream);
  check(((unsigned char*)kept.images)[0] == 0, "a batch outlives its stream");
  composer_batch_release(&kept);
  composer_stream_close(second);

  check_given_order(words[1]);
  check_packing();
  check(composer_loader_open("{\"source\": \"x\", \"batch_size\": 0}") == NULL &&
            composer_loader_error()->kind == COMPOSER_BAD_ARGUMENT,
        "a batch_size of 0 is refused");
  check(composer_loader_open("{\"source\": \"/no/such\", \"batch_size\": 1}") == NULL &&
            composer_loader_error()->kind == COMPOSER_NO_FILE,
        "a missing file is told");
  return failures == 0 ? 0 : 1;
}
