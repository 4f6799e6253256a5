//! Cache of HTTP answers that a client may have missed, kept until it returns with `Last-Event-ID`.
//!
//! A connection may end before its client has read the answer, and the server cannot know. So each answer of a session is kept
//! for a while after its end, within a byte limit. Requests without a session are not kept: their work ends with their
//! connection.

use futures_core::Stream;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Maximum bytes of all answers that have ended: some sixty of the longest.
const MAX_BYTES: usize = 4 << 20;

/// Maximum number of answers that have ended; short ones cost more than their bytes.
const MAX_ANSWERS: usize = 512;

/// Maximum number of events of one answer. The oldest reports of progress go first.
const MAX_EVENTS: usize = 32;

/// Maximum age of an ended answer: the time a laptop's network takes to come back.
const MAX_AGE: Duration = Duration::from_secs(5 * 60);

/// Number of an event in its stream, and number of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventPosition {
    pub(super) event: u64,
    pub(super) stream: u64,
}

impl EventPosition {
    /// Parses `3/7`. An event that belongs to no request has no stream.
    pub(super) fn parse(id: &str) -> Option<EventPosition> {
        let (event, stream) = id.split_once('/')?;
        Some(EventPosition { event: event.parse().ok()?, stream: stream.parse().ok()? })
    }
}

/// All answers, oldest first.
#[derive(Debug, Default)]
pub(super) struct AnswerCache(Mutex<VecDeque<Arc<Answer>>>);

/// The answer to one request.
#[derive(Debug)]
pub(super) struct Answer {
    session: String,
    stream: u64,
    events: watch::Sender<Events>,
}

#[derive(Debug)]
struct Events {
    list: VecDeque<(u64, ServerSseMessage)>,
    bytes: usize,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// A connection forwards its events.
    Open,
    /// The stream was closed before the answer; the work continues.
    Cut,
    Ended(Instant),
}

impl AnswerCache {
    /// Adds a new answer.
    pub(super) fn begin(&self, session: &str, stream: u64) -> Arc<Answer> {
        let events = Events { list: VecDeque::new(), bytes: 0, stage: Stage::Open };
        let (events, _) = watch::channel(events);
        let answer = Arc::new(Answer { session: session.to_owned(), stream, events });
        self.answers().push_back(Arc::clone(&answer));
        answer
    }

    pub(super) fn find(&self, session: &str, stream: u64) -> Option<Arc<Answer>> {
        let answers = self.answers();
        let is_it = |answer: &&Arc<Answer>| answer.session == session && answer.stream == stream;
        answers.iter().find(is_it).cloned()
    }

    /// Removes the answers of a session.
    pub(super) fn forget(&self, session: &str) {
        self.answers().retain(|answer| answer.session != session);
    }

    /// Removes answers that are too old, then the oldest of the session with the most bytes until the rest fits.
    pub(super) fn make_room(&self, now: Instant) {
        let mut answers = self.answers();
        let is_old = |at: Instant| now.saturating_duration_since(at) > MAX_AGE;
        answers.retain(|answer| !answer.ended().is_some_and(|(at, _)| is_old(at)));
        loop {
            let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
            let (mut count, mut bytes) = (0, 0);
            for (answer, size) in
                answers.iter().filter_map(|answer| Some((answer, answer.ended()?.1)))
            {
                *sizes.entry(&answer.session).or_default() += size;
                count += 1;
                bytes += size;
            }
            if count <= MAX_ANSWERS && bytes <= MAX_BYTES {
                return;
            }
            let largest =
                sizes.into_iter().max_by_key(|(_, size)| *size).map(|(session, _)| session);
            let goes = answers.iter().position(|answer| {
                Some(answer.session.as_str()) == largest && answer.ended().is_some()
            });
            let Some(goes) = goes else { return };
            answers.remove(goes);
        }
    }

    fn answers(&self) -> MutexGuard<'_, VecDeque<Arc<Answer>>> {
        self.0.lock().expect("nothing panics in between")
    }
}

impl Answer {
    /// Adds an event, unless it exists already.
    pub(super) fn push(&self, event: ServerSseMessage) {
        let position = event.event_id.as_deref().and_then(EventPosition::parse);
        self.events.send_modify(|events| {
            let last = events.list.back().map(|(number, _)| *number);
            let next = last.map_or(0, |last| last + 1);
            let number = position.map_or(next, |position| position.event);
            if last.is_some_and(|last| number <= last) {
                return;
            }
            events.bytes += event.message.as_deref().map_or(0, length);
            if event.message.as_deref().is_some_and(is_answer) {
                events.stage = Stage::Ended(Instant::now());
            }
            events.list.push_back((number, event));
            if events.list.len() > MAX_EVENTS
                && let Some((_, event)) = events.list.pop_front()
            {
                events.bytes -= event.message.as_deref().map_or(0, length);
            }
        });
    }

    /// Marks that no connection forwards its events.
    pub(super) fn cut(&self) {
        self.events.send_modify(|events| {
            if events.stage == Stage::Open {
                events.stage = Stage::Cut;
            }
        });
    }

    /// Resumes the forwarding of events after a cut. Returns false if a connection does that or nothing is to come.
    pub(super) fn take_up(&self) -> bool {
        self.events.send_if_modified(|events| {
            let was_cut = events.stage == Stage::Cut;
            if was_cut {
                events.stage = Stage::Open;
            }
            was_cut
        })
    }

    /// Returns the number of the last event.
    pub(super) fn last_event(&self) -> u64 {
        self.events.borrow().list.back().map_or(0, |(number, _)| *number)
    }

    /// Returns the events after this one, as they come, until the answer or a cut.
    pub(super) fn events_after(&self, last: Option<u64>) -> EventsAfter {
        let next = next_event(self.events.subscribe(), last);
        EventsAfter { next: Some(Box::pin(next)) }
    }

    /// Returns the time of its end, and its size.
    fn ended(&self) -> Option<(Instant, usize)> {
        let events = self.events.borrow();
        match events.stage {
            Stage::Ended(at) => Some((at, events.bytes)),
            Stage::Open | Stage::Cut => None,
        }
    }
}

fn is_answer(message: &ServerJsonRpcMessage) -> bool {
    matches!(message, ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_))
}

/// Returns the size of a message as JSON.
fn length(message: &ServerJsonRpcMessage) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // A message that cannot be encoded is not sent either.
    let _ = serde_json::to_writer(&mut count, message);
    count.0
}

type Next = Option<(ServerSseMessage, watch::Receiver<Events>, u64)>;

async fn next_event(mut events: watch::Receiver<Events>, last: Option<u64>) -> Next {
    loop {
        let (found, is_over) = {
            let now = events.borrow_and_update();
            let is_next = |(number, _): &&(u64, _)| last.is_none_or(|last| *number > last);
            (now.list.iter().find(is_next).cloned(), now.stage != Stage::Open)
        };
        match found {
            Some((number, event)) => return Some((event, events, number)),
            None if is_over => return None,
            None => events.changed().await.ok()?,
        }
    }
}

/// Events of an answer, for one connection.
pub(super) struct EventsAfter {
    /// `None` after the last event.
    next: Option<Pin<Box<dyn Future<Output = Next> + Send + Sync>>>,
}

impl Stream for EventsAfter {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        let Some(next) = &mut self.next else { return Poll::Ready(None) };
        let told = ready!(next.as_mut().poll(cx));
        self.next = None;
        Poll::Ready(told.map(|(event, events, number)| {
            self.next = Some(Box::pin(next_event(events, Some(number))));
            event
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn response(number: u64, text: &str) -> ServerSseMessage {
        let document = json!({ "jsonrpc": "2.0", "id": 1, "result": { "text": text } });
        let message = serde_json::from_value(document).expect("it is a response");
        ServerSseMessage::new(format!("{number}/7"), message)
    }

    fn priming() -> ServerSseMessage {
        ServerSseMessage::priming("0/7", Duration::from_secs(3))
    }

    async fn told(mut events: EventsAfter) -> Vec<String> {
        let mut ids = Vec::new();
        while let Some(event) = std::future::poll_fn(|cx| Pin::new(&mut events).poll_next(cx)).await
        {
            ids.push(event.event_id.expect("each has one"));
        }
        ids
    }

    #[tokio::test]
    async fn what_was_missed_is_told_again_and_ends() {
        let cache = AnswerCache::default();
        let answer = cache.begin("a", 7);
        answer.push(priming());
        let waiting = tokio::spawn(told(answer.events_after(Some(0))));
        answer.push(response(1, "x"));
        answer.push(response(1, "x"));
        assert_eq!(waiting.await.expect("it ends"), ["1/7"]);
        let kept = cache.find("a", 7).expect("it is kept");
        assert_eq!(told(kept.events_after(None)).await, ["0/7", "1/7"]);
        assert_eq!(told(kept.events_after(Some(1))).await, [""; 0]);
        assert!(cache.find("b", 7).is_none() && cache.find("a", 8).is_none());
        cache.forget("a");
        assert!(cache.find("a", 7).is_none());
    }

    #[tokio::test]
    async fn a_stream_that_was_cut_is_taken_up_once() {
        let answer = AnswerCache::default().begin("a", 7);
        answer.push(priming());
        answer.cut();
        assert_eq!(told(answer.events_after(None)).await, ["0/7"]);
        assert!(answer.take_up() && !answer.take_up());
        answer.push(response(1, "x"));
        answer.cut();
        assert!(!answer.take_up(), "nothing is to come after the answer");
    }

    #[test]
    fn the_largest_session_makes_room_and_old_answers_go() {
        let cache = AnswerCache::default();
        let long = "x".repeat(MAX_BYTES / 4);
        cache.begin("small", 0).push(response(1, "x"));
        let open = cache.begin("large", 99);
        for stream in 0..6 {
            cache.begin("large", stream).push(response(1, &long));
            cache.make_room(Instant::now());
        }
        let kept = (0..6).filter(|stream| cache.find("large", *stream).is_some());
        assert_eq!(kept.collect::<Vec<_>>(), [3, 4, 5]);
        assert!(cache.find("small", 0).is_some() && cache.find("large", 99).is_some());
        cache.make_room(Instant::now() + MAX_AGE * 2);
        assert!(cache.find("small", 0).is_none() && cache.find("large", 5).is_none());
        open.push(response(1, "x"));
        for stream in 0..MAX_ANSWERS as u64 + 9 {
            cache.begin("many", stream).push(response(1, "x"));
        }
        cache.make_room(Instant::now());
        assert_eq!(cache.answers().len(), MAX_ANSWERS);
    }
}
