// Sound files, and some odd ones, for the fuzz targets to damage.
#pragma once

#include <string>
#include <vector>

namespace composer::test {

/// Made here in all formats, with the small ones of ../shared/data/odd where that exists.
std::vector<std::string> image_seeds();
std::vector<std::string> jpeg_seeds();
/// Inputs of fuzz_jpeg_decoder: streams with their index, and without.
std::vector<std::string> jpeg_decoder_seeds();
/// Inputs of fuzz_kept_coefficients.
std::vector<std::string> kept_coefficients_seeds();
/// Made here, with the small ones of ../shared/fixtures where that exists.
std::vector<std::string> beton_seeds();
std::vector<std::string> idx_seeds();
std::vector<std::string> cifar10_seeds();
std::vector<std::string> index_file_seeds();
std::vector<std::string> sample_table_seeds();
std::vector<std::string> tar_seeds();
std::vector<std::string> mds_seeds();
std::vector<std::string> list_seeds();
std::vector<std::string> trace_seeds();
std::vector<std::string> event_file_seeds();
/// Inputs of fuzz_run.
std::vector<std::string> run_seeds();
/// Inputs of fuzz_store_reply.
std::vector<std::string> store_reply_seeds();

}  // namespace composer::test
