#include "base/files/mapped_file.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "composer/checkpoint/safetensors.h"
#include "tests/temporary_folder.h"

namespace composer::mapped_file_test {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

constexpr size_t kPage = 4096;

fs::path file_of(const TemporaryFolder& folder, size_t bytes) {
  const fs::path path = folder.path() / "file";
  std::ofstream(path, std::ios::binary) << std::string(bytes, 'x');
  return path;
}

int64_t sum(std::span<const uint8_t> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

/// How a child process ends that reads a mapping of its own whose file was cut off.
int end_of_foreign_fault(const fs::path& path) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core{};
    setrlimit(RLIMIT_CORE, &no_core);
    const int file = open(path.c_str(), O_RDWR);
    const void* mapping = mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, file, 0);
    if (ftruncate(file, 0) != 0) _exit(1);
    _exit(*static_cast<const volatile char*>(mapping) == 0 ? 2 : 3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

}  // namespace

TEST_CASE("a mapped file that is cut off reads as zeros, and says so") {
  const TemporaryFolder folder;
  const fs::path path = file_of(folder, 20 * kPage);
  const MappedFile file(path);
  const auto bytes = file.bytes();
  file.check(bytes);
  fs::resize_file(path, 5 * kPage + 100);
  const auto head = bytes.first(5 * kPage), tail = bytes.subspan(7 * kPage, kPage);
  CHECK(sum(head) == static_cast<int64_t>(head.size()) * 'x');
  CHECK_FALSE(file.lost(tail));  // nobody has looked
  std::thread([&] { CHECK(sum(tail) == 0); }).join();
  CHECK(file.lost(tail));
  CHECK(file.lost(bytes.subspan(6 * kPage - 1, 2)));
  CHECK_FALSE(file.lost(head));
  file.check(head);
  CHECK_THROWS_WITH(file.check(tail), Contains("cut off while it was read: 20580 of 81920 bytes"));
  CHECK(file.use(head, [&] { return sum(head); }) > 0);
  CHECK_THROWS_AS(file.use(tail, [&] { return sum(tail); }), RunError);
  CHECK_THROWS_WITH(file.use(tail, []() -> int { throw std::logic_error("of the zeros"); }),
                    Contains("cut off"));
  CHECK_THROWS_WITH(file.use_all(sum), Contains(path.string()) && Contains("cut off"));

  // Within the last page no fault tells.
  const auto rest = bytes.subspan(5 * kPage + 50, 100);
  CHECK(sum(rest) == 50 * 'x');
  CHECK_FALSE(file.lost(rest));
  CHECK_THROWS_WITH(file.check(rest), Contains("cut off"));

  // Other files go on, this one too where it is mapped anew.
  const MappedFile again(path);
  CHECK(again.use_all(sum) == (5 * static_cast<int64_t>(kPage) + 100) * 'x');
  CHECK_FALSE(again.lost(again.bytes()));
}

TEST_CASE("the zeros of a whole file are no cut") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "file";
  std::string bytes(3 * kPage, 'x');
  bytes.replace(kPage - 50, 50, 50, '\0');
  bytes.replace(2 * kPage - 90, 50, 50, '\0');
  bytes.replace(3 * kPage - 50, 50, 50, '\0');
  std::ofstream(path, std::ios::binary) << bytes;
  const MappedFile file(path);
  for (const size_t end : {kPage, kPage - 20, 2 * kPage - 40, 2 * kPage - 70, 3 * kPage}) {
    file.check(file.bytes().first(end));
  }
  fs::resize_file(path, 2 * kPage - 80);
  file.check(file.bytes().first(kPage - 20));
  file.check(file.bytes().first(2 * kPage - 80));
  CHECK_THROWS_AS(file.check(file.bytes().first(2 * kPage - 70)), RunError);
  CHECK_THROWS_AS(file.check(file.bytes()), RunError);
}

TEST_CASE("bytes that nobody used are all read before they are called whole") {
  const TemporaryFolder folder;
  const fs::path path = file_of(folder, 5000 * kPage);
  const MappedFile file(path);
  const auto resident = [&] {
    std::ifstream maps("/proc/self/smaps");
    std::string line;
    while (std::getline(maps, line) && line.find(path.string()) == std::string::npos) {
    }
    while (std::getline(maps, line) && !line.starts_with("Rss:")) {
    }
    return line.empty() ? 0 : std::stoul(line.substr(4)) << 10;
  };
  file.check(file.bytes());
  CHECK(resident() < 2500 * kPage);
  file.check_unread(file.bytes());
  CHECK(resident() == 5000 * kPage);
}

TEST_CASE("a mapping for which there is no memory leaves nothing open") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "file";
  constexpr rlim_t kBytes = rlim_t{1} << 37;  // its pages take 4 MiB to note
  { const std::ofstream make(path); }
  fs::resize_file(path, kBytes);
  const auto pages = [] {
    rlim_t value = 0;
    std::ifstream("/proc/self/statm") >> value;
    return value;
  };
  const auto files = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto files_before = files();
  const rlim_t pages_before = pages();
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  const rlimit tight{pages_before * kPage + kBytes + (rlim_t{1} << 20), before.rlim_max};
  setrlimit(RLIMIT_AS, &tight);
  std::string reason;
  try {
    const MappedFile file(path);
  } catch (const RunError& error) {
    reason = error.what();
  }
  setrlimit(RLIMIT_AS, &before);
  CHECK_THAT(reason, Contains("no memory"));
  CHECK(files() == files_before);
  CHECK(pages() < pages_before + kBytes / kPage / 2);
}

TEST_CASE("many mapped files come and go") {
  const TemporaryFolder folder;
  const fs::path path = file_of(folder, 3 * kPage);
  for (int i = 0; i < 50; ++i) {
    const MappedFile one(path), other(path);
    CHECK_FALSE(one.lost(one.bytes()));
    fs::resize_file(path, kPage);
    CHECK(sum(other.bytes()) == static_cast<int64_t>(kPage) * 'x');
    CHECK(other.lost(other.bytes()));
    CHECK_FALSE(one.lost(one.bytes()));
    file_of(folder, 3 * kPage);
  }
}

TEST_CASE("a fault elsewhere still ends the process with SIGBUS") {
  const TemporaryFolder folder;
  const fs::path path = file_of(folder, kPage);
  const MappedFile file(path);
  const fs::path other = folder.path() / "other";
  fs::copy_file(path, other);
  CHECK(end_of_foreign_fault(other) == SIGBUS);
  file.check(file.bytes());
}

TEST_CASE("weights that are cut off while they are read are named") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "model.safetensors";
  constexpr int64_t kNumbers = int64_t{16} << 20;
  std::string header = "{\"w\":{\"dtype\":\"F32\",\"shape\":[" + std::to_string(kNumbers) +
                       "],\"data_offsets\":[0," + std::to_string(4 * kNumbers) + "]}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  std::string reason;
  // The cut has to fall into the reading: it comes later each time.
  for (int delay = 0; reason.empty() && delay < 200; ++delay) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(&length), sizeof length)
        .write(header.data(), static_cast<std::streamsize>(header.size()));
    fs::resize_file(path, 8 + length + 4 * static_cast<uintmax_t>(kNumbers));
    std::thread cut([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(50 * delay));
      fs::resize_file(path, 8 + length);
    });
    try {
      read_safetensors(path);
    } catch (const UserError&) {  // cut before
    } catch (const RunError& error) {
      reason = error.what();
    }
    cut.join();
  }
  CHECK_THAT(reason, Contains(path.string()) && Contains("cut off while it was read"));
}

}  // namespace composer::mapped_file_test
