// Renews the page twice a second, and sends what is to be done. Without it the page reloads itself.
(() => {
  "use strict";

  const EVERY = 500;
  const LATE = 5000;
  const live = document.getElementById("live");
  const pause = document.getElementById("pause");
  const board = () => document.getElementById("board");
  let paused = false;
  let failures = 0;

  document.documentElement.dataset.live = "";

  // Says it once, so that a screen reader does too.
  function say(text) {
    if (live.textContent !== text) live.textContent = text;
  }

  // Makes `old` like `fresh` and touches nothing that is the same: focus, selection and scroll
  // positions stay, and what is added to the events is read out alone.
  function morph(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
      old.replaceWith(fresh);
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of [...fresh.attributes]) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    const byId = new Map();
    for (const child of old.children) if (child.id) byId.set(child.id, child);
    const wanted = new Set();
    for (const child of fresh.children) if (child.id) wanted.add(child.id);
    let next = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      while (next && next.id && !wanted.has(next.id)) {
        const gone = next;
        next = next.nextSibling;
        gone.remove();
      }
      const known = child.id ? byId.get(child.id) : null;
      if (known) {
        if (known === next) next = next.nextSibling;
        else old.insertBefore(known, next);
        morph(known, child);
      } else if (child.id || !next || next.id || next.nodeName !== child.nodeName) {
        old.insertBefore(child, next);
      } else {
        const same = next;
        next = next.nextSibling;
        morph(same, child);
      }
    }
    while (next) {
      const gone = next;
      next = next.nextSibling;
      gone.remove();
    }
  }

  async function renew() {
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), LATE);
    try {
      const answer = await fetch("fragment", { cache: "no-store", signal: limit.signal });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const text = await answer.text();
      if (paused) return;
      const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("board");
      if (!fresh) throw new Error("no board in the answer");
      morph(board(), document.adoptNode(fresh));
      failures = 0;
      say("live");
    } catch (error) {
      failures += 1;
      if (failures > 1) say("no answer: the page shows the past");
    } finally {
      clearTimeout(timer);
    }
  }

  async function run() {
    for (;;) {
      if (!paused && !document.hidden) await renew();
      await new Promise((resolve) => setTimeout(resolve, EVERY * Math.min(1 + failures, 4)));
    }
  }

  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    say(paused ? "paused" : "live");
  });

  // The token stays in its field: it is stored nowhere.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-action]");
    if (!button) return;
    const result = document.getElementById("action-result");
    const token = document.getElementById("token");
    const { source, action, effect } = button.dataset;
    if (!token.value) {
      result.textContent = "Give the token first.";
      token.focus();
      return;
    }
    if (!window.confirm(`${source}: ${action}\n\n${effect}`)) return;
    result.textContent = `${source}: ${action} …`;
    try {
      const answer = await fetch("actions", {
        method: "POST",
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${token.value}` },
        body: JSON.stringify({ source, action }),
      });
      const said = await answer.json();
      result.textContent = `${source}: ${action}: ${said.result ?? said.error}`;
    } catch (error) {
      result.textContent = `${source}: ${action}: no answer: it may be done or not`;
    }
  });

  run();
})();
