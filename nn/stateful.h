// A part of a run that checkpoints keep.
#pragma once

namespace composer {

struct StateDict;

/// Has something that must survive a resumption, or nothing. Names are its own.
class Stateful {
 public:
  virtual ~Stateful() = default;
  virtual StateDict state_dict() const;
  virtual void load_state_dict(const StateDict&);
};

}  // namespace composer
