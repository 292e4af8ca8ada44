// What reads files from anywhere, as functions that take any bytes. They return whether the bytes
// were read or else refused with a reason; whatever else happens (a crash, another exception) is a
// fault of the reader.
#pragma once

#include <cstdint>
#include <span>

namespace composer::test {

/// decode_image.
bool fuzz_decode_image(std::span<const uint8_t> input);
/// read_jpeg_header, make_jpeg_index, JpegRequantizer, transcode_jpeg.
bool fuzz_jpeg_stream(std::span<const uint8_t> input);
/// JpegDecoder. The input: a stream, an index, then a JpegDraw.
bool fuzz_jpeg_decoder(std::span<const uint8_t> input);
/// JpegDecoder with kept coefficients. The input: a stream, their table, the rows, then a KeptDraw.
/// The checksums of the rows are put right first.
bool fuzz_kept_coefficients(std::span<const uint8_t> input);
/// BetonFile and its images.
bool fuzz_beton(std::span<const uint8_t> input);
/// MNIST. The input: the file of images, the file of labels, then the length of the latter (4
/// bytes).
bool fuzz_idx(std::span<const uint8_t> input);
/// CIFAR-10: a file of records.
bool fuzz_cifar10(std::span<const uint8_t> input);
/// The side file of crop indices.
bool fuzz_index_file(std::span<const uint8_t> input);
/// Tables of samples. Their length and checksum are put right first.
bool fuzz_sample_table(std::span<const uint8_t> input);
/// WebDataset's tar files. The sums of their headers are put right first.
bool fuzz_tar(std::span<const uint8_t> input);
/// MosaicML's shards. The input: a shard, the index, then the length of the latter (4 bytes).
bool fuzz_mds(std::span<const uint8_t> input);
/// Lists of images. The first byte: which kind, by its lower two bits.
bool fuzz_list(std::span<const uint8_t> input);
/// What `composer trace` says of a trace, packed by gzip or not, and of its difference to itself.
bool fuzz_trace(std::span<const uint8_t> input);
/// TensorBoard's event files, which a resumption reads.
bool fuzz_event_file(std::span<const uint8_t> input);
/// The report of a run. The input: a line with the name of one of its files, then that file.
bool fuzz_run(std::span<const uint8_t> input);
/// What stores answer (base/remote/store_reply.h), AWS's files, manifests and remote paths. The
/// input: a line that says which of them, then its text.
bool fuzz_store_reply(std::span<const uint8_t> input);

/// How fuzz_jpeg_decoder uses the decoder: the input's last bytes.
struct JpegDraw {
  uint16_t index_bytes = 0;
  uint16_t top = 0, left = 0, height = 0, width = 0;  ///< modulo what the image has
  uint8_t scale = 0;                                  ///< the lower two bits: log2 of it
  uint8_t flags = 0;                                  ///< kFast, kRecord

  static constexpr uint8_t kFast = 1;    ///< Dct::fast
  static constexpr uint8_t kRecord = 2;  ///< without an index: record one and use it
};

/// How fuzz_kept_coefficients uses the decoder: the input's last bytes.
struct KeptDraw {
  uint32_t table_bytes = 0, row_bytes = 0;
  JpegDraw region;  ///< but for its index
};

}  // namespace composer::test
