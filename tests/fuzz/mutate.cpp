#include "tests/fuzz/mutate.h"

#include <algorithm>

namespace composer::test {
namespace {

size_t below(Random& random, size_t n) {
  return static_cast<size_t>(random.below(static_cast<int64_t>(n)));
}

/// A place in the file; half of them near its ends, where headers and tables are.
size_t place(const std::string& file, Random& random) {
  constexpr size_t kHead = 700, kTail = 80;
  const size_t size = file.size();
  switch (random.below(4)) {
    case 0:
      return below(random, std::min(size, kHead));
    case 1:
      return size - 1 - below(random, std::min(size, kTail));
    default:
      return below(random, size);
  }
}

size_t length(const std::string& file, size_t from, Random& random) {
  const size_t most = file.size() - from;
  const size_t scale = size_t{1} << random.below(14);
  return std::min(most, 1 + below(random, scale));
}

/// A number of 1, 2, 4 or 8 bytes in either byte order: lengths, sizes and offsets that lie.
void set_number(std::string& file, Random& random) {
  const size_t bytes = size_t{1} << random.below(4);
  if (file.size() < bytes) return;
  const size_t at = std::min(place(file, random), file.size() - bytes);
  static constexpr uint64_t kValues[] = {0,      1,          2,          7,          127,
                                         128,    255,        256,        0x7FFF,     0x8000,
                                         0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, ~0ULL};
  uint64_t value = kValues[below(random, std::size(kValues))];
  if (random.below(3) == 0) value = file.size() + below(random, 64) - 32;
  const bool little = random.below(2) == 0;
  for (size_t i = 0; i < bytes; ++i) {
    file[at + i] = static_cast<char>(value >> 8 * (little ? i : bytes - 1 - i));
  }
}

/// Adds something small to a number: a length that is wrong by a little.
void shift_number(std::string& file, Random& random) {
  const size_t at = place(file, random);
  file[at] = static_cast<char>(file[at] + static_cast<char>(random.below(9) - 4));
}

void splice(std::string& file, const std::string& other, Random& random) {
  const size_t to = place(file, random), from = place(other, random);
  const std::string part = other.substr(from, length(other, from, random));
  if (random.below(2) == 0) {
    file.insert(to, part);
  } else {
    file.replace(to, std::min(part.size(), file.size() - to), part);
  }
}

void change(std::string& file, const std::string& other, Random& random) {
  if (file.empty()) file = other;
  const size_t at = place(file, random);
  switch (random.below(9)) {
    case 0:
      file[at] = static_cast<char>(file[at] ^ 1 << random.below(8));
      break;
    case 1:
      file[at] = static_cast<char>(random.bits());
      break;
    case 2:
      set_number(file, random);
      break;
    case 3:
      shift_number(file, random);
      break;
    case 4:
      file.resize(at);
      break;
    case 5:
      file.erase(at, length(file, at, random));
      break;
    case 6:
      file.insert(at, std::string(file, at, length(file, at, random)));
      break;
    case 7:
      splice(file, other, random);
      break;
    default: {
      const size_t bytes = length(file, at, random);
      const auto value = static_cast<char>(random.bits());
      std::fill_n(&file[at], bytes, value);
    }
  }
}

}  // namespace

std::string mutated(const std::vector<std::string>& files, Random& random, size_t most_bytes) {
  std::string file = files[below(random, files.size())];
  const int64_t changes = 1 + random.below(5);
  for (int64_t i = 0; i < changes; ++i) {
    const std::string& other = files[below(random, files.size())];
    if (!other.empty()) change(file, other, random);
  }
  if (file.size() > most_bytes) file.resize(most_bytes);
  return file;
}

}  // namespace composer::test
