// list_folder FOLDER [EPOCHS]: opens class folders as a training does, goes through the order of
// some epochs without reading an image, and prints one JSON line: seconds, samples, and the memory
// that is this process's own, before and after.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "data/datasets/image_folder.h"
#include "data/samples/order.h"

namespace {

using namespace composer;

/// Of /proc/self/status or smaps_rollup, in MB.
double megabytes(const char* file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key + ":")) continue;
    double kilobytes = 0;
    std::istringstream(line.substr(key.size() + 1)) >> kilobytes;
    return kilobytes / 1024;
  }
  return 0;
}

double own() { return megabytes("/proc/self/status", "RssAnon"); }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: list_folder FOLDER [EPOCHS]\n";
    return 2;
  }
  try {
    const double before = own(), begin = steady_seconds();
    FolderParams params;
    params.datadir = argv[1];
    const auto source = open_class_folders(params, OnBadSample::skip);
    const double seconds = steady_seconds() - begin, opened = own();
    const Sampler sampler(*source, {.kind = OrderKind::random, .subset = {}, .seed = 17});
    int64_t sum = 0;
    nlohmann::ordered_json epochs = nlohmann::ordered_json::array();
    for (int64_t epoch = 0; epoch < (argc > 2 ? std::atoi(argv[2]) : 0); ++epoch) {
      const EpochOrder order = sampler.epoch(epoch);
      for (int64_t i = 0; i < sampler.size(); ++i) sum += source->label(order(i));
      epochs.push_back(own() - before);
    }
    std::cout << nlohmann::ordered_json{{"samples", source->size()},
                                        {"seconds", seconds},
                                        {"own_mb", opened - before},
                                        {"own_mb_after_epochs", epochs},
                                        {"shared_mb", megabytes("/proc/self/status", "RssFile")},
                                        {"pss_mb", megabytes("/proc/self/smaps_rollup", "Pss")},
                                        {"sum", sum}}
              << '\n';
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
