// A part of a run with state in checkpoints, for headers without LibTorch.
#pragma once

namespace composer {

struct StateDict;

/// It has state that must survive a resumption, or none. It names its entries itself.
class Stateful {
 public:
  virtual ~Stateful() = default;
  virtual StateDict state_dict() const;
  virtual void load_state_dict(const StateDict&);
};

}  // namespace composer
