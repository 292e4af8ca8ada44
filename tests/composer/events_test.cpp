#include <catch2/catch.hpp>

#include "base/files/checksum.h"
#include "composer/logging/logger.h"
#include "composer/logging/tensorboard.h"
#include "nn/network/batch.h"
#include "nn/profiling/memory_timeline.h"
#include "tests/composer/unpacked_png.h"

namespace composer::events_test {

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

TEST_CASE("how many numbers are spread takes little memory, in any layout", "[logging]") {
  const auto numbers = at::rand({3, 1 << 10, 1 << 10}).sub_(0.25);
  std::vector<MemoryPoint> points;
  at::Tensor found;
  {
    MemoryTimeline memory(at::kCPU);
    found = spread(numbers);
    points = memory.points();
  }
  int64_t most = 0;
  for (const auto& point : points)
    most = std::max(most, point.bytes[static_cast<size_t>(MemoryUse::activations)]);
  CHECK(most > 0);
  CHECK(most < 60'000'000);  // all at once would be 150 MB

  const auto x = numbers.to(at::kDouble);
  const auto* values = found.const_data_ptr<double>();
  CHECK(values[0] == x.min().item<double>());
  CHECK(values[1] == x.max().item<double>());
  CHECK(values[2] == static_cast<double>(x.numel()));
  CHECK(values[3] == Approx(x.sum().item<double>()));
  CHECK(values[4] == Approx(x.square().sum().item<double>()));
  const auto counts = found.slice(0, spread_summary);
  const auto expected = at::histc(x, spread_parts, values[0], values[1]);
  CHECK((counts - expected).abs().max().item<double>() <= 2);
  CHECK(counts.sum().item<double>() == values[2]);

  const auto image = at::rand({2, 3, 4, 5});
  for (const auto& same : {image.contiguous(at::MemoryFormat::ChannelsLast),
                           at::cat({image, image}, 3).slice(3, 0, 5), image.transpose(0, 3)})
    CHECK(at::allclose(spread(same), spread(image)));
  CHECK(spread(image[1]).equal(spread(image[1].clone())));
}

TEST_CASE("histograms reach a sink with their record, each with its own numbers", "[logging]") {
  struct Notes : LogSink {
    bool in_loop() const override { return true; }
    void write(const Record& record) override {
      order.push_back(record.values.at(0).first);
      loss = record.values.at(0).second;
    }
    void write_histogram(const HistogramRecord& record) override {
      order.push_back(record.name);
      histograms.push_back(record);
    }
    std::vector<std::string> order;
    std::vector<HistogramRecord> histograms;
    double loss = 0;
  };
  const auto notes = std::make_shared<Notes>();
  Logger logger;
  logger.add(notes);
  logger.open({});
  logger.log("loss", 0.5);
  logger.log_histogram("weights", at::arange(60, at::kFloat));
  logger.log_histogram("empty", at::empty({0}));
  logger.log_histogram("gradients", at::full({7}, -2.0));
  Timestamp time;
  time.batch = 3;
  logger.commit("batch", time);
  logger.flush();
  logger.close({"completed", ""});
  CHECK(notes->order == std::vector<std::string>{"weights", "gradients", "loss"});
  CHECK(notes->loss == 0.5);
  const auto& weights = notes->histograms.at(0);
  CHECK(weights.time.batch == 3);
  CHECK(weights.min == 0);
  CHECK(weights.max == 59);
  CHECK(weights.counts == std::vector<double>(spread_parts, 2));
  const auto& gradients = notes->histograms.at(1);
  CHECK(gradients.count == 7);
  CHECK(gradients.sum == -14);
  CHECK(gradients.sum_of_squares == 28);
  CHECK(gradients.counts.at(0) == 7);
}

}  // namespace composer::events_test
