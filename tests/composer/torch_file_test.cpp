#include "composer/checkpoint/torch_file.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/random.h"
#include "tests/temporary_folder.h"

namespace composer::torch_file_test {
namespace {

using Catch::Matchers::Contains;
using namespace std::string_literals;
using Files = std::vector<std::pair<std::string, std::string>>;

template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
std::string raw(uint32_t a, uint32_t b) { return raw(a) + raw(b); }

/// An uncompressed zip archive, as torch.save writes it. method: what the directory claims.
std::string zip(const Files& files, uint16_t method = 0) {
  std::string bytes, directory;
  for (const auto& [name, content] : files) {
    const auto size = static_cast<uint32_t>(content.size());
    const auto shared = raw<uint16_t>(0) + raw(method) + raw<uint32_t>(0) + raw<uint32_t>(0) +
                        raw(size, size) + raw(static_cast<uint16_t>(name.size())) +
                        raw<uint16_t>(0);
    directory += raw<uint32_t>(0x02014b50) + raw<uint16_t>(0) + raw<uint16_t>(0) + shared +
                 raw<uint16_t>(0) + raw<uint16_t>(0) + raw<uint16_t>(0) + raw<uint32_t>(0) +
                 raw(static_cast<uint32_t>(bytes.size())) + name;
    bytes += raw<uint32_t>(0x04034b50) + raw<uint16_t>(0) + shared + name + content;
  }
  const auto count = static_cast<uint16_t>(files.size());
  return bytes + directory + raw<uint32_t>(0x06054b50) + raw<uint32_t>(0) + raw(count) +
         raw(count) +
         raw(static_cast<uint32_t>(directory.size()), static_cast<uint32_t>(bytes.size())) +
         raw<uint16_t>(0);
}

// Parts of pickles, in protocol 2.
std::string text(const std::string& value) {
  return "X"s + raw(static_cast<uint32_t>(value.size())) + value;
}
std::string number(int64_t value) { return "\x8a\x08"s + raw(value); }
std::string numbers(const std::vector<int64_t>& values) {
  std::string tuple = "(";
  for (const int64_t value : values) tuple += number(value);
  return tuple + "t";
}
const std::string ordered_dict = "ccollections\nOrderedDict\n)R";
std::string pickle(const std::string& value) { return "\x80\x02"s + value + "."; }
std::string storage(const std::string& type, int64_t count, const std::string& key = "0") {
  return "("s + text("storage") + "ctorch\n" + type + "\n" + text(key) + text("cpu") +
         number(count) + "tQ";
}
struct Shape {
  int64_t offset;
  std::vector<int64_t> sizes, strides;
};
std::string tensor(const std::string& from, const Shape& shape) {
  return "ctorch._utils\n_rebuild_tensor_v2\n("s + from + number(shape.offset) +
         numbers(shape.sizes) + numbers(shape.strides) + "\x89" + ordered_dict + "tR";
}
std::string dict(const std::string& name, const std::string& value) {
  return ordered_dict + text(name) + value + "s";
}

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}
const std::string six = floats({0, 1, 2, 3, 4, 5});

std::string archive(const std::string& pickled, const std::string& data = six) {
  return zip({{"archive/data.pkl", pickled},
              {"archive/byteorder", "little"},
              {"archive/data/0", data},
              {"archive/version", "3\n"}});
}
std::string archive_of(const std::string& type, int64_t count, const Shape& shape) {
  return archive(pickle(dict("w", tensor(storage(type, count), shape))));
}

TEST_CASE("a state dict of PyTorch is read with its strides", "[torch_file]") {
  const TemporaryFolder folder;
  const auto path = folder.write("w.pth", archive_of("FloatStorage", 6, {1, {2, 2}, {1, 2}}));
  const auto tensors = read_torch_file(path);
  REQUIRE(tensors.size() == 1);
  CHECK(at::equal(tensors.at("w"), at::tensor({1.0F, 3.0F, 2.0F, 4.0F}).view({2, 2})));
  CHECK(tensors.at("w").is_contiguous());
}

TEST_CASE("a state dict among other things is found", "[torch_file]") {
  const TemporaryFolder folder;
  const auto inner = dict("w", tensor(storage("LongStorage", 3), {0, {3}, {1}}));
  // A dict with a number, an argparse.Namespace with an attribute, and the state dict two levels
  // down.
  const auto outer = "}("s + text("epoch") + "K\x05" + text("args") +
                     "cargparse\nNamespace\n)\x81}" + text("lr") + "G????????sb" + text("state") +
                     dict("model", inner) + "u";
  const auto tensors = read_torch_file(folder.write("w.pth", archive(pickle(outer))));
  REQUIRE(tensors.contains("w"));
  CHECK(tensors.at("w").scalar_type() == at::kLong);
  CHECK(tensors.at("w").sizes() == at::IntArrayRef{3});
}

TEST_CASE("objects beside a state dict are passed over", "[torch_file]") {
  const TemporaryFolder folder;
  // numpy.float64(...) with its dtype and bytes, an object with items, and one that another makes.
  const auto scalar = "cnumpy._core.multiarray\nscalar\ncnumpy\ndtype\n"s + text("f8") +
                      "\x89\x88\x87R(K\x03" + text("<") +
                      "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"s + "c_codecs\nencode\n" +
                      text("abcdefgh") + text("latin1") + "\x86R\x86R";
  const auto items = "cmine.utilities\nItems\n)\x81("s + text("lr") + "K\x01u";
  const auto made = "c__builtin__\ngetattr\ncmine\nKind\n"s + text("of") + "\x86R)R";
  const auto named = "cmine\nNamed\n)}\x92"s;
  const auto outer = "}("s + text("accuracy") + scalar + text("hyper_parameters") + items +
                     text("kind") + made + text("named") + named + text("set") + "(K\x01\x91" +
                     text("best") + tensor(storage("FloatStorage", 6), {0, {}, {}}) +
                     text("state_dict") +
                     dict("w", tensor(storage("FloatStorage", 6), {1, {2}, {1}})) + "u";
  const auto tensors = read_torch_file(folder.write("w.pth", archive(pickle(outer))));
  REQUIRE(tensors.size() == 1);
  CHECK(at::equal(tensors.at("w"), at::tensor({1.0F, 2.0F})));
}

TEST_CASE("of several state dicts a whole average is taken", "[torch_file]") {
  const TemporaryFolder folder;
  const auto at = [](int64_t offset) {
    return tensor(storage("FloatStorage", 6), {offset, {2}, {1}});
  };
  const auto both = [](const std::string& name, const std::string& a, const std::string& b) {
    return ordered_dict + "(" + text(name) + a + text(name + "2") + b + "u";
  };
  const auto read = [&](const std::string& key, const std::string& average) {
    const auto outer = "}("s + text("model") + both("w", at(0), at(1)) + text(key) + average +
                       text("optimizer_average") + "}" + "u";
    return read_torch_file(folder.write("w.pth", archive(pickle(outer))));
  };
  for (const char* key : {"model_ema", "state_dict_ema", "EMA", "swa_model"}) {
    INFO(key);
    CHECK(read(key, both("module.w", at(3), at(4))).contains("module.w"));
  }
  CHECK(read("model_ema", dict("w", at(3))).size() == 2);  // a part of one
  CHECK(read("schema", both("x", at(3), at(4))).contains("w"));
}

TEST_CASE("where no key is a state dict's the keys are listed", "[torch_file]") {
  const TemporaryFolder folder;
  const auto inner = dict("w", tensor(storage("FloatStorage", 6), {0, {6}, {1}})) + text("b") +
                     tensor(storage("FloatStorage", 6), {0, {1}, {1}}) + "s";
  const auto outer = "}("s + text("epoch") + "K\x05" + text("best") +
                     tensor(storage("FloatStorage", 6), {0, {}, {}}) + text("generator") + inner +
                     text("net") + "cmine\nNet\n)\x81u";
  CHECK_THROWS_WITH(
      read_torch_file(folder.write("w.pth", archive(pickle(outer)))),
      Contains("no state dict") &&
          Contains(
              "'epoch', 'best', 'generator' (a state dict), 'net' (an object of type mine.Net)"));
  const auto foreign = "ctorch._utils\n_rebuild_qtensor\n)R"s;
  const auto beside = inner + text("q") + foreign + "s";
  CHECK_THROWS_WITH(read_torch_file(folder.write("q.pth", archive(pickle(beside)))),
                    Contains("'q'") && Contains("torch._utils._rebuild_qtensor"));
}

TEST_CASE("parameters and newer dtypes are read", "[torch_file]") {
  const TemporaryFolder folder;
  const auto parameter = "ctorch._utils\n_rebuild_parameter\n("s +
                         tensor(storage("HalfStorage", 12), {0, {}, {}}) + "\x88" + ordered_dict +
                         "tR";
  CHECK(read_torch_file(folder.write("p", archive(pickle(dict("w", parameter))))).at("w").dim() ==
        0);

  const auto untyped = "("s + text("storage") + "ctorch.storage\nUntypedStorage\n" + text("0") +
                       text("cpu") + number(24) + "tQ";
  const auto v3 = "ctorch._utils\n_rebuild_tensor_v3\n("s + untyped + number(2) + numbers({4}) +
                  numbers({1}) + "\x89" + ordered_dict + "ctorch\nuint16\n}tR";
  CHECK(read_torch_file(folder.write("t", archive(pickle(dict("w", v3))))).at("w").scalar_type() ==
        at::kUInt16);
}

TEST_CASE("damaged and hostile PyTorch files are user errors", "[torch_file]") {
  const auto good = archive_of("FloatStorage", 6, {0, {6}, {1}});
  const auto weight = tensor(storage("FloatStorage", 6), {0, {6}, {1}});
  const int64_t huge = INT64_MAX / 2;
  const auto [reason, bytes] = GENERATE_COPY(table<std::string, std::string>({
      {"not a PyTorch file", ""},
      {"not a PyTorch file", "hello"},
      {"before 1.6", "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."},
      {"cut off", good.substr(0, good.size() / 2)},
      {"cut off", good.substr(0, good.size() - 1)},
      {"no data.pkl", zip({{"archive/other", "x"}})},
      {"compressed", zip({{"archive/data.pkl", "x"}}, 8)},
      {"TorchScript", zip({{"a/data.pkl", pickle("N")}, {"a/constants.pkl", ""}})},
      {"big-endian", zip({{"a/data.pkl", pickle("N")}, {"a/byteorder", "big"}})},
      {"no state dict", archive(pickle("N"))},
      {"no state dict", archive(pickle(dict("w", "K\x01")))},
      {"posix.system", archive(pickle("cposix\nsystem\n("s + text("true") + "tR"))},
      {"__builtin__.eval", archive(pickle("c__builtin__\neval\n("s + text("1") + "tR"))},
      {"torch.nn.modules.linear.Linear", archive(pickle("ctorch.nn.modules.linear\nLinear\n)\x81"))},
      {"unknown instruction", archive(pickle("\x82\x01"))},
      {"cut off", archive("\x80\x02}")},
      {"stack is empty", archive(pickle(""))},
      {"stack is empty", archive(pickle("Nb0R"))},
      {"mark is missing", archive(pickle("t"))},
      {"without a value", archive(pickle("}(Nu"))},
      {"never stored", archive(pickle("h\x07"))},
      {"cut off", archive(pickle("X\xff\xff\xff\xff"))},
      {"no function", archive(pickle("K\x01)R"))},
      {"calls what is no function", archive(pickle("ctorch\nFloatStorage\n)R"))},
      {"argument is missing", archive(pickle("ctorch._utils\n_rebuild_tensor_v2\n)R"))},
      {"bytes are missing", archive(pickle(dict("w", storage("FloatStorage", 6, "1"))))},
      {"shorter", archive_of("FloatStorage", 7, {0, {6}, {1}})},
      {"shorter", archive_of("FloatStorage", -1, {0, {6}, {1}})},
      {"fit its storage", archive_of("FloatStorage", 6, {1, {6}, {1}})},
      {"fit its storage", archive_of("FloatStorage", 6, {-1, {6}, {1}})},
      {"fit its storage", archive_of("FloatStorage", 6, {0, {3}, {3}})},
      {"fit its storage", archive_of("FloatStorage", 6, {0, {-2}, {1}})},
      {"fit its storage", archive_of("FloatStorage", 6, {0, {2}, {-1}})},
      {"fit its storage", archive_of("FloatStorage", 6, {0, {huge, huge}, {0, 0}})},
      {"fit its storage", archive_of("FloatStorage", 6, {0, {1000000}, {0}})},
      {"fit its storage", archive_of("FloatStorage", 6, {huge, {3}, {huge}})},
      {"fit its storage", archive_of("FloatStorage", 6, {0, {0, huge, 9}, {1, 1, 1}})},
      {"fit its storage", archive_of("FloatStorage", 6, {0, {2, 3}, {1}})},
      {"too many dimensions", archive_of("FloatStorage", 6, {0, std::vector<int64_t>(65, 1), {1}})},
      {"no storage where", archive(pickle(dict("w", tensor("N", {0, {6}, {1}}))))},
      {"too many objects", archive(pickle(std::string(4'100'000, ']')))},
      {"overlap", [&] {
         std::string all = ordered_dict;
         const auto big = storage("ByteStorage", 1 << 20);
         for (int i = 0; i < 40; ++i)
           all += text(std::to_string(i)) + tensor(big, {0, {1 << 20}, {1}}) + "s";
         return archive(pickle(all), std::string(1 << 20, 'x'));
       }()},
  }));
  const TemporaryFolder folder;
  const auto path = folder.write("bad.pth", bytes);
  INFO(bytes.substr(0, 200));
  REQUIRE_THROWS_AS(read_torch_file(path), UserError);
  CHECK_THROWS_WITH(read_torch_file(path), Contains(reason) && Contains("bad.pth"));
}

TEST_CASE("a record that nobody needs may claim what it likes", "[torch_file]") {
  auto bytes = archive_of("FloatStorage", 6, {0, {6}, {1}});
  const size_t entry = bytes.rfind("archive/version") - 46;  // in the directory
  bytes.replace(entry + 10, 2, raw<uint16_t>(8));
  bytes.replace(entry + 24, 4, raw<uint32_t>(0xfffffff0));
  const TemporaryFolder folder;
  CHECK(read_torch_file(folder.write("w.pth", bytes)).at("w").numel() == 6);
}

TEST_CASE("values nested without end do no harm", "[torch_file]") {
  const TemporaryFolder folder;
  const auto nested = std::string(500'000, ']') + std::string(499'999, 'a');
  CHECK_THROWS_WITH(read_torch_file(folder.write("n", archive(pickle(nested)))),
                    Contains("no state dict"));
  // A dict that holds itself under "model".
  const auto cycle = "}q\x01"s + text("model") + "h\x01s";
  CHECK_THROWS_WITH(read_torch_file(folder.write("c", archive(pickle(cycle)))),
                    Contains("no state dict"));
}

TEST_CASE("a PyTorch file with any byte changed is read or refused", "[torch_file]") {
  const TemporaryFolder folder;
  const auto good = archive_of("FloatStorage", 6, {0, {2, 3}, {3, 1}});
  Random random(1, "test", 0, 0);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    auto bad = good;
    bad[static_cast<size_t>(random.below(static_cast<int64_t>(bad.size())))] =
        static_cast<char>(random.below(256));
    if (i % 4 == 0) bad.resize(static_cast<size_t>(random.below(static_cast<int64_t>(bad.size()))));
    try {
      read_torch_file(folder.write("bad", bad));
    } catch (const UserError&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
}

}  // namespace
}  // namespace composer::torch_file_test
