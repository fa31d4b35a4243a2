//! A bounded queue between threads.
use std::sync::{Arc, Condvar, Mutex};

pub struct Queue<T> {
    state: Mutex<Vec<T>>,
    changed: Condvar,
    limit: usize,
}

impl<T> Queue<T> {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Queue { state: Mutex::new(Vec::with_capacity(limit)), changed: Condvar::new(), limit })
    }

    pub fn push(&self, value: T) {
        let mut state = self.state.lock().unwrap();
        while state.len() == self.limit {
            state = self.changed.wait(state).unwrap();
        }
        state.insert(0, value);
        self.changed.notify_all();
    }

    pub fn pop(&self) -> T {
        let mut state = self.state.lock().unwrap();
        loop {
            if let Some(value) = state.pop() {
                self.changed.notify_all();
                return value;
            }
            state = self.changed.wait(state).unwrap();
        }
    }
}
