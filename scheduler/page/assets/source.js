// Asks the scheduler for the pool again and again. What is told last stays while nobody answers.

const PAUSE_MS = 2000;
const LONGEST_PAUSE_MS = 30000;
const PATIENCE_MS = 10000;

// Calls `told(pool, now)` with each new pool and the scheduler's time, `linked(state, details)`
// with how asking goes ("live", "lost": nobody answers, "slow": too many ask), and `refused()` when
// the credential is not taken, which ends it.
export class Source {
  constructor(credential, {told, linked, refused}) {
    this.credential = credential;
    this.told = told;
    this.linked = linked;
    this.refused = refused;
    this.failures = 0;
    this.etag = "";
    this.ended = false;
    this.wake = () => { if (!document.hidden) this.soon(0); };
    document.addEventListener("visibilitychange", this.wake);
    window.addEventListener("online", this.wake);
    this.soon(0);
  }

  end() {
    this.ended = true;
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.wake);
    window.removeEventListener("online", this.wake);
  }

  soon(ms) {
    clearTimeout(this.timer);
    if (this.ended || this.asking) return;
    this.timer = setTimeout(() => this.ask(), ms);
  }

  async ask() {
    // A tab that nobody sees asks no more until somebody does.
    if (document.hidden && this.etag) return;
    this.asking = true;
    const began = performance.now();
    let pause = PAUSE_MS;
    let why = "";
    try {
      const headers = {Authorization: `Bearer ${this.credential}`};
      if (this.etag) headers["If-None-Match"] = this.etag;
      const answer = await fetch("/pool.json", {
        headers, cache: "no-store", credentials: "omit", redirect: "error",
        signal: AbortSignal.timeout(PATIENCE_MS)});
      if (this.ended) return;
      if (answer.status === 401) {
        this.end();
        this.refused();
        return;
      }
      if (answer.status !== 200 && answer.status !== 304) {
        why = answer.status === 429 ? "busy" : "no state";
        throw new Error(`the answer has status ${answer.status}`);
      }
      const now = Date.parse(answer.headers.get("Date")) || Date.now();
      if (answer.status === 200) {
        const pool = await answer.json();
        if (this.ended) return;
        this.etag = answer.headers.get("ETag") ?? "";
        this.told(pool, now);
      }
      this.failures = 0;
      this.linked("live", {at: Date.now()});
      // Who is far away, or shows much, asks less often.
      pause = Math.max(PAUSE_MS, 10 * (performance.now() - began));
    } catch {
      if (this.ended) return;
      this.failures += 1;
      const longest = Math.min(LONGEST_PAUSE_MS, PAUSE_MS * 2 ** (this.failures - 1));
      // Many pages that lost the same scheduler come back one after another.
      pause = longest * (0.5 + Math.random() / 2);
      this.linked("lost", {retry: Date.now() + pause, why});
    } finally {
      this.asking = false;
      this.soon(pause);
    }
  }
}
