// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Browsers start no worker from a page that was opened from a disk, and the search of the theme is a worker.
// For such pages a frame takes its place: it runs the same script, and passes messages on.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.ready = new Promise((resolve) => this.frame.addEventListener("load", resolve));
      addEventListener("message", (event) => {
        if (event.source === this.frame.contentWindow)
          this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      });
      const script = document.createElement("script");
      script.src = url;
      const answer = "postMessage = (message) => parent.postMessage(message, '*');";
      this.frame.srcdoc = `<script>${answer}</script>${script.outerHTML}`;
      document.body.appendChild(this.frame);
    }
    postMessage(message) {
      // The frame's own postMessage leads to this page.
      this.ready.then(() => window.postMessage.call(this.frame.contentWindow, message, "*"));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
