// Tar files and MDS shards for tests, byte by byte.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace composer::test {

/// A header of the kind that `magic` tells ("ustar\0" "00" is POSIX's, "ustar  " GNU's).
inline std::string tar_header(const std::string& name, uint64_t bytes, char type = '0',
                              const std::string& prefix = "",
                              const std::string& magic = std::string("ustar\0"
                                                                     "00",
                                                                     8)) {
  std::string block(512, '\0');
  const auto put = [&](size_t at, const std::string& text) {
    block.replace(at, text.size(), text);
  };
  const auto octal = [](uint64_t value, int digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%0*llo", digits, static_cast<unsigned long long>(value));
    return std::string(text);
  };
  put(0, name.substr(0, 100));
  put(100, "0000644"), put(108, "0000000"), put(116, "0000000");
  put(124, octal(bytes, 11)), put(136, octal(1'700'000'000, 11));
  put(148, "        ");
  block[156] = type;
  put(257, magic);
  put(345, prefix.substr(0, 155));
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<uint8_t>(c);
  put(148, octal(sum, 6)), block[154] = '\0', block[155] = ' ';
  return block;
}

inline std::string tar_padded(const std::string& content) {
  return content + std::string((512 - content.size() % 512) % 512, '\0');
}

inline std::string tar_member(const std::string& name, const std::string& content,
                              char type = '0') {
  return tar_header(name, content.size(), type) + tar_padded(content);
}

/// A pax header for the member that follows, or (type g) for all.
inline std::string tar_pax(const std::vector<std::pair<std::string, std::string>>& records,
                           char type = 'x') {
  std::string content;
  for (const auto& [key, value] : records) {
    const std::string rest = " " + key + "=" + value + "\n";
    size_t length = rest.size() + 1;
    while (std::to_string(length).size() + rest.size() != length) ++length;
    content += std::to_string(length) + rest;
  }
  return tar_member("pax", content, type);
}

inline std::string tar_end() { return std::string(1024, '\0'); }

/// An MDS shard of samples, each with its columns' bytes. fixed: which columns have one size.
inline std::string mds_shard(const std::vector<std::vector<std::string>>& samples,
                             const std::vector<bool>& fixed) {
  const auto number = [](uint64_t value) {
    std::string bytes(4, '\0');
    for (int i = 0; i < 4; ++i) bytes[static_cast<size_t>(i)] = static_cast<char>(value >> 8 * i);
    return bytes;
  };
  const std::string config = "{\"format\": \"mds\"}";
  std::vector<std::string> all;
  for (const auto& sample : samples) {
    std::string head, data;
    for (size_t c = 0; c < sample.size(); ++c) {
      if (!fixed[c]) head += number(sample[c].size());
      data += sample[c];
    }
    all.push_back(head + data);
  }
  uint64_t offset = 4 + 4 * (all.size() + 1) + config.size();
  std::string file = number(all.size());
  for (const auto& one : all) file += number(offset), offset += one.size();
  file += number(offset) + config;
  for (const auto& one : all) file += one;
  return file;
}

/// A number as it lies in a column of integers.
template <class T>
std::string mds_number(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// Pixels in MosaicML's form.
inline std::string mds_pil(uint32_t width, uint32_t height, const std::string& mode,
                           const std::string& pixels) {
  return mds_number(width) + mds_number(height) + mds_number(static_cast<uint32_t>(mode.size())) +
         mode + pixels;
}

}  // namespace composer::test
