// clang-format off
// The training loop, drawn with every event in the place where it fires. Names and order are
// MosaicML Composer's.
//
//   init                              surgery: model on the CPU; no optimizer, no checkpoint yet
//   fit_start
//   while time < max_duration:
//     epoch_start                     not fired again when a run resumes in mid-epoch
//     for batch in loader:
//       (the batch goes to the device)
//       augment                       state.raw_batch is the batch, still bytes
//       (it is normalised)            state.batch is it from here
//       after_dataloader
//       batch_start
//         before_train_batch            (again for each part of the batch, if State::updates > 1)
//           for microbatch in batch:
//             before_forward          state.batch is the microbatch from here
//               outputs = model(input)
//             after_forward
//             before_loss
//               loss = model.loss(outputs, target)
//             after_loss
//             before_backward
//               loss.backward()
//             after_backward
//           (gradients are unscaled and clipped; state.batch is the whole batch again)
//         after_train_batch
//         optimizer.step()
//       (time moves on, learning rates follow)
//       batch_end
//       (evaluation, if due)          eval_start
//       batch_checkpoint                for batch in loader:
//     epoch_end                           eval_batch_start
//     (evaluation, if due)                eval_before_forward
//     epoch_checkpoint                      outputs = model(input)
//   fit_end                               eval_after_forward
//                                         eval_batch_end
//                                     eval_end
//
// Prediction fires predict_start ... predict_end in the places of eval_start ... eval_end.
// After an epoch's last batch, evaluation waits for epoch_end.
// On events that close a pair, marked `closing`, algorithms run in reverse order.
// clang-format on
#pragma once

#include <bitset>
#include <string_view>

// The one list of events: X(name, kind).
#define COMPOSER_EVENTS(X)           \
  X(init, opening)                   \
  X(fit_start, opening)              \
  X(epoch_start, opening)            \
  X(augment, opening)                \
  X(after_dataloader, opening)       \
  X(batch_start, opening)            \
  X(before_train_batch, opening)     \
  X(before_forward, opening)         \
  X(after_forward, closing)          \
  X(before_loss, opening)            \
  X(after_loss, closing)             \
  X(before_backward, opening)        \
  X(after_backward, closing)         \
  X(after_train_batch, closing)      \
  X(batch_end, closing)              \
  X(batch_checkpoint, opening)       \
  X(epoch_end, closing)              \
  X(epoch_checkpoint, opening)       \
  X(fit_end, closing)                \
  X(eval_start, opening)             \
  X(eval_batch_start, opening)       \
  X(eval_before_forward, opening)    \
  X(eval_after_forward, closing)     \
  X(eval_batch_end, closing)         \
  X(eval_end, closing)               \
  X(predict_start, opening)          \
  X(predict_batch_start, opening)    \
  X(predict_before_forward, opening) \
  X(predict_after_forward, closing)  \
  X(predict_batch_end, closing)      \
  X(predict_end, closing)

namespace composer {

enum class Event {
#define X(name, kind) name,
  COMPOSER_EVENTS(X)
#undef X
};

inline constexpr std::string_view event_names[] = {
#define X(name, kind) #name,
    COMPOSER_EVENTS(X)
#undef X
};

inline constexpr size_t event_count = std::size(event_names);

constexpr std::string_view name(Event event) { return event_names[static_cast<size_t>(event)]; }

/// Whether algorithms run in reverse order on `event`.
constexpr bool closing(Event event) {
  enum Kind : bool { opening = false, closing = true };
  constexpr bool kinds[] = {
#define X(name, kind) Kind::kind,
      COMPOSER_EVENTS(X)
#undef X
  };
  return kinds[static_cast<size_t>(event)];
}

using EventSet = std::bitset<event_count>;

}  // namespace composer
