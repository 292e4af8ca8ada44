// Makes .beton files for tests, of a few hundred bytes up, by a second reading of the format.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace composer::test {

struct TestField {
  std::string name;
  uint8_t type = 1;  ///< 0 Float, 1 Int, 2 RGBImage, 3 Bytes, 4 NDArray, 5 JSON, 6 TorchTensor
  std::vector<uint64_t> shape;
  std::string descr;  ///< of arrays, for instance [["", "<f4"]]
};

struct TestImage {
  uint8_t mode = 1;
  uint16_t width = 0, height = 0;
  std::string bytes;
};

/// Text is the data of Bytes, JSON (without the closing 0) and arrays.
using TestValue = std::variant<int64_t, double, TestImage, std::string>;

struct TableEntry {
  uint64_t sample = 0, begin = 0, size = 0;
};

struct TestBeton {
  uint32_t page_size = 256;
  std::vector<TestField> fields;
  std::vector<std::vector<TestValue>> rows;
  std::function<void(std::vector<TableEntry>&)> reorder = [](auto&) {};
};

struct BetonBytes {
  std::string file;
  size_t rows = 0, row_bytes = 0, pages = 0, table = 0;  ///< where they begin, and a row's length
};

template <class T>
void put(std::string& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

inline size_t rounded_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

inline std::string descriptor(const TestField& field) {
  std::string bytes(1, static_cast<char>(field.type));
  bytes += field.name.substr(0, 16);
  bytes.resize(17);
  for (const uint64_t length : field.shape) append(bytes, length);
  bytes.resize(17 + 256);
  append(bytes, uint64_t{field.descr.size()});
  bytes += field.descr;
  bytes.resize(1041);
  return bytes;
}

/// Rows as numpy's align=True makes them; regions one after the other, a sample's in one page.
inline BetonBytes beton_bytes(const TestBeton& spec) {
  BetonBytes made;
  std::vector<size_t> offsets;
  size_t alignment = 1;
  for (const auto& field : spec.fields) {
    static constexpr size_t kBytes[] = {8, 8, 13, 16, 8, 16, 8}, kAlign[] = {8, 8, 1, 1, 8, 1, 8};
    offsets.push_back(rounded_up(made.row_bytes, kAlign[field.type]));
    made.row_bytes = offsets.back() + kBytes[field.type];
    alignment = std::max(alignment, kAlign[field.type]);
  }
  made.row_bytes = rounded_up(made.row_bytes, alignment);
  made.rows = 24 + 1041 * spec.fields.size();
  const size_t rows_end = made.rows + spec.rows.size() * made.row_bytes;

  std::string rows(spec.rows.size() * made.row_bytes, '\0'), data;
  made.pages = rounded_up(rows_end, spec.page_size);
  std::vector<TableEntry> table;
  for (size_t i = 0; i < spec.rows.size(); ++i) {
    std::string regions;
    for (const auto& value : spec.rows[i]) {
      if (const auto* image = std::get_if<TestImage>(&value)) regions += image->bytes;
      if (const auto* text = std::get_if<std::string>(&value)) regions += *text + '\0';
    }
    if (data.size() % spec.page_size + regions.size() > spec.page_size)
      data.resize(rounded_up(data.size(), spec.page_size));
    for (size_t f = 0; f < spec.fields.size(); ++f) {
      const size_t at = i * made.row_bytes + offsets[f];
      const auto& value = spec.rows[i][f];
      uint64_t begin = made.pages + data.size(), pointer_at = at;
      std::string bytes;
      if (const auto* number = std::get_if<int64_t>(&value)) {
        put(rows, at, *number);
        continue;
      } else if (const auto* real = std::get_if<double>(&value)) {
        put(rows, at, *real);
        continue;
      } else if (const auto* image = std::get_if<TestImage>(&value)) {
        put(rows, at, image->mode), put(rows, at + 1, image->width);
        put(rows, at + 3, image->height);
        pointer_at = at + 5, bytes = image->bytes;
      } else {
        bytes = std::get<std::string>(value);
        if (spec.fields[f].type == 5) bytes += '\0';
        if (spec.fields[f].type == 3 || spec.fields[f].type == 5)
          put(rows, at + 8, uint64_t{bytes.size()});
      }
      put(rows, pointer_at, begin);
      table.push_back({i, begin, bytes.size()});
      data += bytes;
    }
  }
  made.table = table.empty() ? rows_end : made.pages + rounded_up(data.size(), spec.page_size);
  if (spec.reorder) spec.reorder(table);

  append(made.file, uint16_t{2}), append(made.file, static_cast<uint16_t>(spec.fields.size()));
  append(made.file, spec.page_size), append(made.file, uint64_t{spec.rows.size()});
  append(made.file, uint64_t{made.table});
  for (const auto& field : spec.fields) made.file += descriptor(field);
  made.file += rows;
  made.file.resize(std::min(made.pages, made.table));
  made.file += data;
  made.file.resize(made.table);
  for (const auto& entry : table)
    append(made.file, entry.sample), append(made.file, entry.begin), append(made.file, entry.size);
  return made;
}

/// Raw pixels that differ from image to image.
inline TestImage raw_image(uint16_t width, uint16_t height, int seed) {
  TestImage image{1, width, height, std::string(size_t{width} * height * 3, '\0')};
  for (size_t i = 0; i < image.bytes.size(); ++i)
    image.bytes[i] = static_cast<char>(i * 7 + static_cast<size_t>(seed) * 31);
  return image;
}

}  // namespace composer::test
