#include "composer/logging/events.h"

#include <catch2/catch.hpp>

#include "composer/logging/spread.h"
#include "composer/storage/crc32c.h"
#include "tests/composer/unpacked_png.h"

using namespace composer;

TEST_CASE("CRC-32C is that of RFC 3720", "[logging]") {
  CHECK(crc32c("123456789") == 0xe3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c("") == 0);
}

TEST_CASE("records of an event file come back, up to the first that is damaged", "[logging]") {
  const std::string first = "one", second(300, 'x');
  auto file = event_record(first) + event_record(second);
  CHECK(event_records(file) == std::vector<std::string_view>{first, second});
  CHECK(event_records(std::string_view(file).substr(0, file.size() - 1)).size() == 1);
  file[25] ^= 1;
  CHECK(event_records(file).size() == 1);
  file[1] ^= 1;
  CHECK(event_records(file).empty());
}

TEST_CASE("protobuf fields are read as they were written", "[logging]") {
  ProtobufMessage inner, message;
  inner.real64(1, 0.1);
  message.integer(2, -5);
  message.real(3, 1.5f);
  message.message(20, inner);
  ProtobufReader reader(message.all());
  CHECK(static_cast<int64_t>(reader.next()->value) == -5);
  CHECK(reader.next()->number == 3);
  const auto field = reader.next(20);
  CHECK(std::bit_cast<double>(ProtobufReader(field->bytes).next()->value) == 0.1);
  CHECK_FALSE(reader.next());
  CHECK_FALSE(ProtobufReader(message.all().substr(0, 3)).next());
}

TEST_CASE("pictures of a record are one tensor of size and PNG files", "[logging]") {
  ImageRecord record{"images/train", {}, {{2, 1, 3, {1, 2, 3, 4, 5, 6}, "cat"}}};
  const auto value = images_value(record);
  ProtobufReader fields(value.all());
  CHECK(fields.next(1)->bytes == "images/train");
  ProtobufReader tensor(fields.next(8)->bytes);
  CHECK(tensor.next(8)->bytes == "1");
  CHECK(tensor.next(8)->bytes == "2");
  CHECK(unpacked_png(std::string(tensor.next(8)->bytes)).pixels == record.images[0].pixels);
  CHECK_FALSE(tensor.next(8));
  CHECK(ProtobufReader(value.all()).next(9)->bytes.find("At batch 0: cat") !=
        std::string_view::npos);
}

TEST_CASE("how numbers are spread, equal ones and odd ones too", "[logging]") {
  const auto numbers = spread(at::arange(60, at::kFloat));
  const auto* values = numbers.const_data_ptr<double>();
  CHECK(values[0] == 0);
  CHECK(values[1] == 59);
  CHECK(values[2] == 60);
  CHECK(values[3] == 59 * 60 / 2);
  CHECK(values[4] == 59 * 60 * 119 / 6);
  CHECK(numbers.slice(0, spread_summary).sum().item<double>() == 60);
  CHECK(numbers.slice(0, spread_summary).max().item<double>() <= 3);
  const auto equal = spread(at::full({7}, 3.0f));
  CHECK(equal[spread_summary].item<double>() == 7);
  const auto odd = spread(at::tensor({0.0f, 1.0f, INFINITY, NAN}));
  CHECK(odd[1].item<double>() == 1);
  CHECK(odd[spread_summary].item<double>() == 3);
}
