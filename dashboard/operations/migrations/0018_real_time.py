from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('operations', '0017_pacing'),
    ]

    operations = [
        migrations.AddField(
            model_name='fragmentpace', name='real_time', field=models.BooleanField(default=False)),
        migrations.AddField(
            model_name='fragmentpace', name='refusal',
            field=models.CharField(blank=True, default='', max_length=200)),
    ]
