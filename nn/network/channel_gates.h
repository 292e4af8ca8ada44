// What algorithms need to know of networks that weigh their channels by gates already.
#pragma once

namespace composer {

/// A block that computes gates of channels: its layers see one pixel an image.
class ChannelGates {
 public:
  virtual ~ChannelGates() = default;
};

}  // namespace composer
