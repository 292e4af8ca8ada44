// A base for sources that change some properties of another source.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/samples/source.h"

namespace composer {

/// Forwards to another source: sample i is the sample inner(i) of that source.
class WrappedSource : public Source {
 public:
  explicit WrappedSource(std::shared_ptr<Source> source) : source_(std::move(source)) {}

  int64_t size() const override { return source_->size(); }
  int64_t channels() const override { return source_->channels(); }
  int64_t label(int64_t index) const override { return source_->label(inner(index)); }
  int64_t num_values() const override { return source_->num_values(); }
  std::vector<std::string> value_names() const override { return source_->value_names(); }
  void read_values(int64_t index, std::span<float> values) const override {
    source_->read_values(inner(index), values);
  }
  std::string name(int64_t index) const override { return source_->name(inner(index)); }
  StoredImage open(int64_t index, ReadScratch& scratch) const override {
    return source_->open(inner(index), scratch);
  }
  bool has_image_files() const override { return source_->has_image_files(); }
  Arrival arrival() const override { return source_->arrival(); }
  FileStamp fetch(int64_t index, std::vector<uint8_t>& bytes,
                  const RoomFor& room_for) const override {
    return source_->fetch(inner(index), bytes, room_for);
  }
  std::optional<Extent> extent(int64_t index, bool whole_page) const override {
    return source_->extent(inner(index), whole_page);
  }
  void bring(const Extent& extent) const override { source_->bring(extent); }
  bool is_remote() const override { return source_->is_remote(); }
  std::shared_ptr<void> follow(Forecast forecast) const override {
    return source_->follow([this, forecast = std::move(forecast)](const auto& visit) {
      forecast([&](int64_t sample) { visit(inner(sample)); });
    });
  }

 protected:
  virtual int64_t inner(int64_t index) const { return index; }

  std::shared_ptr<Source> source_;
};

}  // namespace composer
