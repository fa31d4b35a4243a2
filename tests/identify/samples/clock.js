(function () {
  var canvas = document.getElementById('clock');
  var context = canvas.getContext('2d');

  function hand(angle, length, width) {
    context.beginPath();
    context.lineWidth = width;
    context.moveTo(100, 100);
    context.lineTo(100 + length * Math.sin(angle), 100 - length * Math.cos(angle));
    context.stroke();
  }

  function draw() {
    var now = new Date();
    context.clearRect(0, 0, 200, 200);
    hand((now.getHours() % 12) * Math.PI / 6, 50, 6);
    hand(now.getMinutes() * Math.PI / 30, 75, 4);
    hand(now.getSeconds() * Math.PI / 30, 85, 1);
    window.requestAnimationFrame(draw);
  }

  window.addEventListener('load', draw);
})();
