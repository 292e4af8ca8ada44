#include "composer/checkpoint/safetensors.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/random.h"
#include "tests/temporary_folder.h"

namespace composer::safetensors_test {
namespace {

using Catch::Matchers::Contains;

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string with_header(const std::string& header, const std::string& data) {
  uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + header + data;
}

TensorMap some_tensors() {
  return {
      {"weight", at::randn({4, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast)},
      {"transposed", at::arange(6).view({2, 3}).t()},
      {"flags", at::tensor({1, 0, 1}).to(at::kBool)},
      {"half", at::randn({5}).to(at::kHalf)},
      {"brain", at::randn({2, 2}).to(at::kBFloat16)},
      {"count", at::scalar_tensor(7, at::kLong)},
      {"nothing", at::empty({0, 3})},
      {"strange \"name\" \xc3\xa9", at::ones({1}, at::kByte)},
  };
}

TEST_CASE("tensors come back from a safetensors file as they went in", "[safetensors]") {
  const TemporaryFolder folder;
  const auto tensors = some_tensors();
  write_safetensors(folder / "a.safetensors", tensors);
  const auto read = read_safetensors(folder / "a.safetensors");
  REQUIRE(read.size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    INFO(name);
    REQUIRE(read.contains(name));
    CHECK(read.at(name).scalar_type() == tensor.scalar_type());
    CHECK(read.at(name).is_contiguous());
    CHECK(at::equal(read.at(name), tensor));
  }
}

TEST_CASE("a safetensors file is deterministic, aligned, and padded", "[safetensors]") {
  const TemporaryFolder folder;
  const auto tensors = some_tensors();
  write_safetensors(folder / "a", tensors);
  write_safetensors(folder / "b", tensors);
  const auto bytes = content(folder / "a");
  CHECK(bytes == content(folder / "b"));
  uint64_t size = 0;
  std::memcpy(&size, bytes.data(), 8);
  CHECK(size % 8 == 0);
  const auto header = nlohmann::json::parse(bytes.substr(8, size));
  CHECK(header["weight"]["dtype"] == "F32");
  CHECK(header["weight"]["shape"] == std::vector<int64_t>{4, 3, 3, 3});
  for (const auto& [name, entry] : header.items())
    CHECK(entry["data_offsets"][0].get<size_t>() % tensors.at(name).element_size() == 0);
}

TEST_CASE("a file that others wrote, with metadata, is read", "[safetensors]") {
  const TemporaryFolder folder;
  const float value = 1.5F;
  const auto path = folder.write(
      "x",
      with_header(
          R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}   )",
          std::string(reinterpret_cast<const char*>(&value), 4)));
  CHECK(read_safetensors(path).at("a").item<float>() == 1.5F);
}

TEST_CASE("damaged and hostile safetensors files are user errors", "[safetensors]") {
  const std::string four(4, '\0');
  const auto entry = [](const std::string& fields) { return "{\"a\":{" + fields + "}}"; };
  const auto [reason, bytes] = GENERATE_COPY(table<std::string, std::string>({
      {"too short", "abc"},
      {"cut off", std::string(8, '\xff')},
      {"cut off", with_header("{}", "").substr(0, 9)},
      {"JSON", with_header("{\"a\":", "")},
      {"JSON", with_header("\xff\xfe{}", "")},
      {"JSON", with_header(std::string(100000, '['), "")},
      {"object", with_header("[1, 2]", "")},
      {"twice", with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                            "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                            four)},
      {"needs dtype", with_header("{\"a\":7}", "")},
      {"needs dtype", with_header(entry(R"("dtype":"F32","shape":[1])"), four)},
      {"unknown dtype",
       with_header(entry(R"("dtype":"F31","shape":[1],"data_offsets":[0,4])"), four)},
      {"unknown dtype", with_header(entry(R"("dtype":9,"shape":[1],"data_offsets":[0,4])"), four)},
      {"unknown dtype an array",
       with_header(entry("\"dtype\":" + std::string(300'000, '[') + std::string(300'000, ']') +
                         R"(,"shape":[1],"data_offsets":[0,4])"),
                   four)},
      {"whole numbers",
       with_header(entry(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), four)},
      {"whole numbers",
       with_header(entry(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])"), four)},
      {"whole numbers",
       with_header(entry(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4])"),
                   four)},
      {"too large",
       with_header(entry(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"),
                   "")},
      {"too large",
       with_header(entry(R"("dtype":"F32","shape":[0,9223372036854775807,8],"data_offsets":[0,0])"),
                   "")},
      {"two whole", with_header(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0])"), four)},
      {"contradict", with_header(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), four)},
      {"contradict", with_header(entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), four)},
      {"behind the end",
       with_header(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), four)},
      {"does not follow",
       with_header(entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), four + four)},
      {"overlaps", with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                               R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                               four + "xx")},
      {"no tensor",
       with_header(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), four + "more")},
  }));
  const TemporaryFolder folder;
  const auto path = folder.write("bad.safetensors", bytes);
  INFO(bytes.substr(0, 200));
  REQUIRE_THROWS_AS(read_safetensors(path), UserError);
  CHECK_THROWS_WITH(read_safetensors(path), Contains(reason) && Contains("bad.safetensors"));
}

TEST_CASE("no file at all is a user error", "[safetensors]") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(read_safetensors(folder / "none"), Contains("no such file"));
  CHECK_THROWS_AS(read_safetensors(folder / ""), UserError);
}

TEST_CASE("a safetensors file with any byte changed is read or refused", "[safetensors]") {
  const TemporaryFolder folder;
  write_safetensors(folder / "good", {{"a", at::ones({2, 3})}, {"b", at::ones({2}, at::kBool)}});
  const auto good = content(folder / "good");
  Random random(1, "test", 0, 0);
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    auto bad = good;
    bad[static_cast<size_t>(random.below(static_cast<int64_t>(bad.size())))] =
        static_cast<char>(random.below(256));
    if (i % 3 == 0) bad.resize(static_cast<size_t>(random.below(static_cast<int64_t>(bad.size()))));
    try {
      read_safetensors(folder.write("bad", bad));
    } catch (const UserError&) {
      ++refused;
    }
  }
  CHECK(refused > 500);
}

TEST_CASE("a file that cannot be written is a run error", "[safetensors]") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(write_safetensors(folder / "no/such/folder", {}), RunError);
}

}  // namespace
}  // namespace composer::safetensors_test
