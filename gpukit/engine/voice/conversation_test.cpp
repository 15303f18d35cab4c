#include "gpukit/engine/voice/conversation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <thread>

#include "gpukit/base/error.h"

namespace gpukit::voice {
namespace {

constexpr int64_t kRate = 16000, kAnswerRate = 24000, kMs = 1'000'000;

std::vector<float> tone(int64_t ms) {
  std::vector<float> out(static_cast<size_t>(ms * kRate / 1000));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = 0.1f * std::sin(2 * std::numbers::pi_v<float> * 220 * static_cast<float>(i) / kRate);
  return out;
}

std::vector<float> quiet(int64_t ms) { return std::vector<float>(static_cast<size_t>(ms * kRate / 1000)); }

/// A conversation in which an answer of ten seconds is spoken.
struct Speaking {
  VirtualClock clock;
  Conversation talk{{}, clock};
  std::shared_ptr<Conversation::Turn> turn;

  Speaking() {
    talk.start_listening();
    turn = talk.begin_turn(1.0);
    EXPECT_TRUE(talk.heard(*turn, "What is this?"));
    talk.begin_answer(*turn);
    EXPECT_TRUE(turn->answer->put_text("A very long answer."));
    turn->answer->end_text();
    EXPECT_EQ(turn->answer->next_sentence()->text, "A very long answer.");
    EXPECT_TRUE(turn->answer->put_sound(std::vector<float>(10 * kAnswerRate, 0.1f), true));
    turn->answer->end_sound();
    while (turn->answer->next_event().kind != Answer::Event::Kind::written) {
    }
  }
};

// The microphone and the loudspeaker run beside each other on one clock, in blocks of their own.
TEST(Conversation, SpeechStopsTheAnswerWithin100MsOfItsOnset) {
  for (const int64_t mic_ms : {5, 10, 20, 30}) {
    for (int64_t onset_ms = 500; onset_ms < 540; ++onset_ms) {
      Speaking s;
      std::vector<float> sound = quiet(onset_ms);
      const std::vector<float> speech = tone(600);
      sound.insert(sound.end(), speech.begin(), speech.end());
      int64_t mic_at = 0, plays_until = 0;
      bool over = false;
      for (int64_t ms = 0; !over && ms < 1100; ++ms, s.clock.advance_ns(kMs)) {
        if (ms > 0 && ms % mic_ms == 0) {
          const int64_t end = ms * kRate / 1000;
          s.talk.hear(
              std::span<const float>(sound).subspan(static_cast<size_t>(mic_at), static_cast<size_t>(end - mic_at)));
          mic_at = end;
        }
        if (ms >= plays_until) {
          const Answer::Event event = s.turn->answer->next_event();
          over = event.kind != Answer::Event::Kind::sound;
          if (over) break;
          EXPECT_LE(event.samples.size(), kAnswerRate / 50);
          plays_until = ms + static_cast<int64_t>(event.samples.size()) * 1000 / kAnswerRate;
        }
      }
      EXPECT_TRUE(over);
      EXPECT_GT(plays_until, onset_ms);
      EXPECT_LE(plays_until, onset_ms + 100) << mic_ms << " ms blocks, onset at " << onset_ms;
      EXPECT_EQ(s.talk.stats().interruptions, 1);
      EXPECT_EQ(s.talk.state(), TalkState::listening);
    }
  }
}

TEST(Conversation, AClickIsNoSpeech) {
  Speaking s;
  std::vector<float> sound = quiet(100);
  const std::vector<float> click = tone(20);
  sound.insert(sound.end(), click.begin(), click.end());
  sound.resize(kRate);
  EXPECT_FALSE(s.talk.hear(sound).interrupted);
  EXPECT_EQ(s.turn->answer->next_event().kind, Answer::Event::Kind::sound);
}

TEST(Conversation, SpeechWhileTranscribingCancelsTheTurn) {
  VirtualClock clock;
  Conversation talk({}, clock);
  EXPECT_EQ(talk.begin_turn(1), nullptr);
  talk.start_listening();
  const auto turn = talk.begin_turn(1);
  EXPECT_EQ(talk.state(), TalkState::transcribing);
  EXPECT_TRUE(talk.hear(tone(60)).interrupted);
  EXPECT_EQ(talk.state(), TalkState::listening);
  EXPECT_FALSE(talk.heard(*turn, "Too late."));
  EXPECT_EQ(turn->answer->next_event().kind, Answer::Event::Kind::end);
  EXPECT_EQ(talk.finish(*turn), "");
  EXPECT_TRUE(talk.history().empty());
  EXPECT_EQ(talk.stats().interruptions, 1);
  EXPECT_FALSE(talk.interrupt());
}

TEST(Conversation, AnInterruptedAnswerIsRememberedAsFarAsItCame) {
  Speaking s;
  EXPECT_EQ(s.talk.state(), TalkState::generating);
  EXPECT_TRUE(s.talk.note_sound(*s.turn, 480, "A very long answer."));
  EXPECT_FALSE(s.talk.note_sound(*s.turn, 480, ""));
  EXPECT_EQ(s.talk.state(), TalkState::speaking);
  s.clock.advance_ns(250 * kMs);
  EXPECT_TRUE(s.talk.interrupt());
  const auto next = s.talk.begin_turn(1);
  EXPECT_TRUE(s.talk.heard(*next, " Stop. "));
  EXPECT_EQ(s.talk.finish(*s.turn), "A very long answer.");
  EXPECT_EQ(s.talk.finish(*s.turn), "A very long answer.");
  const std::vector<SpokenTurn> turns = s.talk.history();
  ASSERT_EQ(turns.size(), 3);
  EXPECT_EQ(turns[1].text, "A very long answer.");
  EXPECT_FALSE(turns[1].user);
  EXPECT_EQ(turns[2].text, "Stop.");
  EXPECT_EQ(s.talk.stats().generation_time_ms, 250);
  EXPECT_EQ(s.talk.stats().audio_seconds, 0.04);
  std::vector<std::string> stages;
  for (const StageNote& note : s.talk.log()) stages.push_back(note.stage);
  EXPECT_EQ(stages, (std::vector<std::string>{"vad", "whisper", "tts", "interruption", "vad", "whisper", "llm"}));
}

TEST(Conversation, WhatIsRememberedIsBounded) {
  VirtualClock clock;
  Conversation talk({.vad = {}, .max_history = 10}, clock);
  talk.start_listening();
  int64_t shrunk = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto turn = talk.begin_turn(1);
    ASSERT_TRUE(talk.heard(*turn, "Words."));
    // Every turn is 30 tokens; there is room for 5 of them.
    const auto tokens = [&] { return 30 * static_cast<int64_t>(talk.window().size()); };
    while (talk.shrink_window(tokens(), 150)) ++shrunk;
    EXPECT_LE(tokens(), 150);
    EXPECT_TRUE(talk.window().front().user);
    EXPECT_TRUE(turn->answer->put_text("Yes."));
    talk.finish(*turn);
    EXPECT_LE(talk.history().size(), 10);
  }
  EXPECT_LE(shrunk, 2000);
  EXPECT_EQ(talk.log().size(), 1000);
  EXPECT_THROW(while (talk.shrink_window(1 << 20, 10)){}, ArgumentError);
  talk.reset();
  EXPECT_TRUE(talk.history().empty());
  EXPECT_EQ(talk.stats().total_turns, 0);
  EXPECT_EQ(talk.state(), TalkState::idle);
}

TEST(Conversation, ATurnOfBeforeAResetChangesNothing) {
  Speaking s;
  const auto late = s.talk.begin_turn(1);
  s.talk.reset();
  EXPECT_FALSE(s.talk.heard(*late, "Late."));
  EXPECT_TRUE(s.talk.note_sound(*s.turn, 480, "A very long answer."));
  EXPECT_EQ(s.talk.finish(*s.turn), "A very long answer.");
  EXPECT_TRUE(s.talk.log().empty());
  EXPECT_TRUE(s.talk.history().empty());
  EXPECT_EQ(s.talk.stats().audio_seconds, 0);
  EXPECT_EQ(s.talk.state(), TalkState::idle);
  EXPECT_TRUE(late->answer->stopped());
}

TEST(Conversation, OptionsAreChecked) {
  EXPECT_THROW(Conversation({.vad = {}, .barge_in_seconds = 0}), ArgumentError);
  EXPECT_THROW(Conversation({.vad = {}, .max_history = 1}), ArgumentError);
  EXPECT_THROW(Conversation({.vad = {}, .chunk_seconds = 0}), ArgumentError);
  EXPECT_THROW(Conversation({.vad = {}, .sample_rate = 0}), ArgumentError);
}

TEST(Answer, SentencesGoToTheSpeakerWhileTheNextIsWritten) {
  const auto book = std::make_shared<SpeechStatsBook>();
  VirtualClock clock;
  Answer answer({}, book, clock);
  for (const char* piece : {"One", " two.", " Three"}) EXPECT_TRUE(answer.put_text(piece));
  clock.advance_ns(5 * kMs);
  const auto first = answer.next_sentence();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->text, "One two.");
  EXPECT_FALSE(first->last);
  clock.advance_ns(10 * kMs);
  EXPECT_TRUE(answer.put_sound(std::vector<float>(2400, 0.5f), false));
  EXPECT_TRUE(answer.put_text(" four."));
  answer.end_text();
  EXPECT_FALSE(answer.put_text("late"));
  const auto second = answer.next_sentence();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->text, "Three four.");
  EXPECT_TRUE(second->last);
  EXPECT_TRUE(answer.put_sound(std::vector<float>(1200, 0.5f), true));
  EXPECT_FALSE(answer.next_sentence());
  answer.end_sound();
  const SpeechStats stats = book->read();
  EXPECT_EQ(stats.total_tokens, 4);
  EXPECT_EQ(stats.total_sentences, 2);
  EXPECT_DOUBLE_EQ(stats.total_audio_duration_ms, 150);
  EXPECT_DOUBLE_EQ(stats.first_audio_latency_ms, 15);
  EXPECT_DOUBLE_EQ(stats.total_synthesis_time_ms, 10);
  EXPECT_EQ(answer.text(), "One two. Three four.");
  int64_t samples = 0;
  Answer::Event last;
  for (Answer::Event e = answer.next_event(); e.kind != Answer::Event::Kind::end; e = answer.next_event()) {
    samples += static_cast<int64_t>(e.samples.size());
    last = e;
  }
  EXPECT_EQ(samples, 3600);
  EXPECT_EQ(last.kind, Answer::Event::Kind::spoken);
  EXPECT_FALSE(answer.stop());
}

TEST(Answer, StoppingWakesEveryone) {
  const auto book = std::make_shared<SpeechStatsBook>();
  Answer answer({.seconds_ahead = 0.1}, book);
  bool spoke = true;
  std::optional<Answer::Sentence> sentence = Answer::Sentence{};
  std::thread speaker([&] { spoke = answer.put_sound(std::vector<float>(24000), false); });
  std::thread waiter([&] { sentence = answer.next_sentence(); });
  std::thread stopper([&] { EXPECT_TRUE(answer.stop()); });
  speaker.join();
  waiter.join();
  stopper.join();
  EXPECT_FALSE(spoke);
  EXPECT_FALSE(sentence);
  EXPECT_TRUE(answer.stopped());
  EXPECT_FALSE(answer.stop());
  EXPECT_FALSE(answer.put_text("more"));
  EXPECT_EQ(answer.next_event().kind, Answer::Event::Kind::end);
}

}  // namespace
}  // namespace gpukit::voice
