// Each fuzz target on damaged files: a fixed number of them, the same every time. More of them:
//   test_fuzz "[long]"    COMPOSER_FUZZ_SECONDS (60) for each target, from COMPOSER_FUZZ_SEED (1)
//   on test_fuzz "[replay]"  target COMPOSER_FUZZ_TARGET on the file COMPOSER_FUZZ_INPUT test_fuzz
//   "[corpus]"  writes the sound files to COMPOSER_FUZZ_CORPUS/TARGET/, for libFuzzer
// COMPOSER_FUZZ_KEEP=FILE writes each input there before it runs: what a crash leaves in it is the
// culprit. Best run where sanitizers watch: presets asan and fuzz (tests/CMakeLists.txt).

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <ctime>

#include "base/log.h"
#include "tests/files.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/seeds.h"

namespace composer::fuzz_test {

using namespace composer::test;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kMostSeconds = 10;
#else
constexpr double kMostSeconds = 2;
#endif
constexpr long kMostKilobytes = 2L << 20;
constexpr unsigned kHangSeconds = 120;
constexpr size_t kMostBytes = 60'000;

struct FuzzTarget {
  const char* name;
  bool (*run)(std::span<const uint8_t>);
  std::vector<std::string> (*seeds)();
  int64_t inputs;  ///< of the fast test: about a second
};

constexpr FuzzTarget kTargets[] = {
    {"decode_image", fuzz_decode_image, image_seeds, 3000},
    {"jpeg_stream", fuzz_jpeg_stream, jpeg_seeds, 6000},
    {"jpeg_decoder", fuzz_jpeg_decoder, jpeg_decoder_seeds, 12000},
    {"kept_coefficients", fuzz_kept_coefficients, kept_coefficients_seeds, 6000},
    {"beton", fuzz_beton, beton_seeds, 12000},
    {"idx", fuzz_idx, idx_seeds, 2000},
    {"cifar10", fuzz_cifar10, cifar10_seeds, 2000},
    {"index_file", fuzz_index_file, index_file_seeds, 10000},
    {"sample_table", fuzz_sample_table, sample_table_seeds, 30000},
    {"tar", fuzz_tar, tar_seeds, 4000},
    {"mds", fuzz_mds, mds_seeds, 10000},
    {"list", fuzz_list, list_seeds, 10000},
    {"trace", fuzz_trace, trace_seeds, 1000},
    {"event_file", fuzz_event_file, event_file_seeds, 10000},
    {"run", fuzz_run, run_seeds, 3000},
    {"store_reply", fuzz_store_reply, store_reply_seeds, 20000},
};

const FuzzTarget& target_named(const std::string& name) {
  const auto* found = std::find_if(std::begin(kTargets), std::end(kTargets),
                                   [&](const FuzzTarget& target) { return name == target.name; });
  if (found == std::end(kTargets)) throw std::logic_error("no target " + name);
  return *found;
}

std::string variable(const char* name, const std::string& otherwise = "") {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The most memory that this process has had.
long peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

struct Outcome {
  bool read = false;  ///< else refused
  std::string fault;  ///< what is wrong with how the target took the input; empty when nothing is
};

Outcome outcome_of(const FuzzTarget& target, const std::string& input) {
  static const std::string keep = variable("COMPOSER_FUZZ_KEEP");
  if (!keep.empty()) write_file(keep, input);
  // As small as the input and on the heap, so that a sanitizer sees reads beyond its end.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  static const long at_start = peak_kilobytes();
  const double start = cpu_seconds();
  alarm(kHangSeconds);
  Outcome outcome;
  std::string& fault = outcome.fault;
  try {
    outcome.read = target.run(bytes);
  } catch (const std::exception& error) {
    fault = error.what();
  }
  alarm(0);
  const double seconds = cpu_seconds() - start;
  if (seconds > kMostSeconds) fault = "it takes " + std::to_string(seconds) + " s";
  if (peak_kilobytes() - at_start > kMostKilobytes) fault = "it takes more than 2 GB";
  return outcome;
}

/// Input number i of a run: the sound files come first. Returns whether the target read it. Fails
/// the test and keeps the input when something is wrong.
bool run_input(const FuzzTarget& target, const std::vector<std::string>& seeds, uint64_t seed,
               int64_t i) {
  Random random(seed, std::string("fuzz.") + target.name, 0, static_cast<uint64_t>(i));
  const auto sound = static_cast<int64_t>(seeds.size());
  const std::string input =
      i < sound ? seeds[static_cast<size_t>(i)] : mutated(seeds, random, kMostBytes);
  const auto [read, fault] = outcome_of(target, input);
  if (fault.empty()) return read;
  const std::string kept = (fs::temp_directory_path() / "composer_fuzz_").string() + target.name;
  write_file(kept, input);
  FAIL(target.name << ", input " << i << " of seed " << seed << ": " << fault << "; kept as "
                   << kept);
  return false;
}

void run_some(const char* name) {
  log::quiet();
  const FuzzTarget& target = target_named(name);
  const auto seeds = target.seeds();
  int64_t sound = 0, read = 0;
  for (int64_t i = 0; i < target.inputs; ++i) {
    const bool was_read = run_input(target, seeds, 0, i);
    read += was_read;
    sound += was_read && i < static_cast<int64_t>(seeds.size());
  }
  // Otherwise the target tests less than it seems to.
  CHECK(sound * 10 >= static_cast<int64_t>(seeds.size()) * 6);
  CHECK(read > target.inputs / 100);
  CHECK(read < target.inputs * 99 / 100);
}

}  // namespace

TEST_CASE("damaged images", "[fuzz]") { run_some("decode_image"); }
TEST_CASE("damaged JPEG streams", "[fuzz]") { run_some("jpeg_stream"); }
TEST_CASE("damaged JPEG streams with an index", "[fuzz]") { run_some("jpeg_decoder"); }
TEST_CASE("damaged kept coefficients", "[fuzz]") { run_some("kept_coefficients"); }
TEST_CASE("damaged .beton files", "[fuzz]") { run_some("beton"); }
TEST_CASE("damaged idx files", "[fuzz]") { run_some("idx"); }
TEST_CASE("damaged CIFAR-10 files", "[fuzz]") { run_some("cifar10"); }
TEST_CASE("damaged index files", "[fuzz]") { run_some("index_file"); }
TEST_CASE("damaged tables of samples", "[fuzz]") { run_some("sample_table"); }
TEST_CASE("damaged tar files", "[fuzz]") { run_some("tar"); }
TEST_CASE("damaged MDS shards", "[fuzz]") { run_some("mds"); }
TEST_CASE("damaged lists of images", "[fuzz]") { run_some("list"); }
TEST_CASE("damaged traces", "[fuzz]") { run_some("trace"); }
TEST_CASE("damaged event files", "[fuzz]") { run_some("event_file"); }
TEST_CASE("damaged files of runs", "[fuzz]") { run_some("run"); }
TEST_CASE("damaged answers of stores", "[fuzz]") { run_some("store_reply"); }

TEST_CASE("all targets for some time", "[.long]") {
  log::quiet();
  const auto seconds = std::chrono::seconds(std::stoi(variable("COMPOSER_FUZZ_SECONDS", "60")));
  const auto seed = std::stoull(variable("COMPOSER_FUZZ_SEED", "1"));
  const std::string only = variable("COMPOSER_FUZZ_TARGET");
  for (const FuzzTarget& target : kTargets) {
    if (!only.empty() && only != target.name) continue;
    const auto seeds = target.seeds();
    const auto end = std::chrono::steady_clock::now() + seconds;
    int64_t i = 0;
    while (std::chrono::steady_clock::now() < end) run_input(target, seeds, seed, i++);
    WARN(target.name << ": " << i << " inputs of seed " << seed);
  }
}

TEST_CASE("one input again", "[.replay]") {
  const std::string file = variable("COMPOSER_FUZZ_INPUT");
  REQUIRE_FALSE(file.empty());
  CHECK(outcome_of(target_named(variable("COMPOSER_FUZZ_TARGET")), read_bytes(file)).fault == "");
}

TEST_CASE("the sound files as libFuzzer's corpus", "[.corpus]") {
  const fs::path folder = variable("COMPOSER_FUZZ_CORPUS");
  REQUIRE_FALSE(folder.empty());
  for (const FuzzTarget& target : kTargets) {
    int64_t i = 0;
    for (const auto& seed : target.seeds()) {
      write_file((folder / target.name / std::to_string(i++)).string(), seed);
    }
  }
}

}  // namespace composer::fuzz_test
